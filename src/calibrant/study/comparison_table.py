"""Tables of each method against the baseline: differences at a glance, and every test of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.study.best import LEVEL
from calibrant.study.differences import Compared, Differences, differences_of, verdict
from calibrant.study.measures import Measure
from calibrant.study.paired import smallest_p
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table, as_entry, grouped, number_entry

__all__ = ["comparison_tables"]

_HEADS = (
    "pairs", "difference", "effect", "p", "p (Holm)", "p (sign flips)", "p (seeds)", "verdict",
)  # fmt: skip
_TOLD = ("better", "worse", "differs")


def comparison_tables(
    runs: Sequence[Run], measures: Sequence[Measure], baseline: str
) -> list[Table]:
    """Differences, then tests, of one unit; none without a baseline, or another method."""
    found = differences_of(runs, measures, baseline)
    if not found:
        return []
    return [_differences(found, runs[0].unit, baseline), _tests(found, runs[0].unit, baseline)]


def _differences(found: Differences, unit: str, baseline: str) -> Table:
    """A row per method, a column per measure."""
    methods = list(dict.fromkeys(method for compared in found.values() for method in compared))
    rows = tuple(
        Row(
            (method,),
            tuple(_difference(compared.get(method), m) for m, compared in found.items()),
            tuple(sorted({k for c in found.values() if method in c for k in c[method].keys})),
        )
        for method in methods
    )
    return Table(
        "differences",
        f"Difference from {baseline} on {unit}",
        ("method",),
        tuple(measure.title for measure in found),
        rows,
        f"Method minus {baseline}, paired by seed and head width, ± half of a 95 % t-interval. "
        "Bold, with its direction: what the paired t-test tells apart (5 %, Holm-corrected over "
        "the methods).",
        unit,
        tuple(measure.to_dict() for measure in found),
    )


def _difference(found: Compared | None, measure: Measure) -> Entry:
    if found is None:
        return Entry("")
    told = verdict(found.pairs, found.corrected, measure.sign)
    difference = found.pairs.difference
    text = difference.show(measure.digits, signed=True)
    if told in _TOLD:
        return Entry(f"{text} {told}", difference.mean, difference.half, difference.n, True)
    return Entry(text, difference.mean, difference.half, difference.n)


def _tests(found: Differences, unit: str, baseline: str) -> Table:
    """A row per measure and method, with every test."""
    rows = [
        Row((measure.title, method), _entries(compared, measure), compared.keys)
        for measure, methods in found.items()
        for method, compared in methods.items()
    ]
    counts = {c.pairs.difference.n for methods in found.values() for c in methods.values()}
    return Table(
        "tests",
        f"Tests against {baseline} on {unit}",
        ("measure", "method"),
        _HEADS,
        grouped(rows),
        _note(baseline, min(counts)),
        unit,
        tuple(measure.to_dict() for measure in found),
        closed=True,
    )


def _entries(found: Compared, measure: Measure) -> tuple[Entry, ...]:
    pairs = found.pairs
    told = verdict(pairs, found.corrected, measure.sign)
    return (
        Entry(str(pairs.difference.n), float(pairs.difference.n), math.nan, 1),
        as_entry(pairs.difference, measure.digits + 1, signed=True),
        number_entry(pairs.effect, 2),
        _p(pairs.t),
        _p(found.corrected),
        _p(pairs.flips),
        _p(found.over_seeds),
        Entry(told, bold=told in _TOLD),
    )


def _p(value: float) -> Entry:
    """Four decimals; what is smaller is said to be.

    >>> _p(0.00001).text, _p(0.25).text
    ('< 0.0001', '0.2500')
    """
    if 0 <= value < 0.0001:
        return Entry("< 0.0001", value, math.nan, 1)
    return number_entry(value, 4)


def _note(baseline: str, few: int) -> str:
    said = (
        f"Method minus {baseline}, paired by seed and head width, ± half of a 95 % t-interval; "
        "runs of one seed at several widths count as independent pairs. Effect: mean difference "
        "over its standard deviation. p: paired t-test, both sides; Holm: corrected for all "
        "methods of the same measure; sign flips: permutation test, exact up to 16 pairs; seeds: "
        "t-test of each seed's mean difference over widths, uncorrected, which does without that "
        "independence. The verdict is that of the corrected p at 5 %."
    )
    if smallest_p(few) > LEVEL:
        pairs = "1 pair" if few == 1 else f"{few} pairs"
        said += (
            f" With {pairs} a sign-flip test cannot fall below {smallest_p(few):.4g}, whatever the "
            "difference, and the t-test leans on the differences being normal: at least 6 pairs "
            "are needed to do without."
        )
    return said
