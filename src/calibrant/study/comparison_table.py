"""Each method against the baseline, run by run: difference, effect, tests, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.report.numbers import DASH
from calibrant.study.best import LEVEL, paired_values
from calibrant.study.measures import Measure
from calibrant.study.paired import Comparison, compare_pairs, holm, smallest_p, t_p
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table, as_entry, grouped, number_entry

__all__ = ["comparison_table", "verdict"]

_HEADS = (
    "pairs", "difference", "effect", "p", "p (Holm)", "p (sign flips)", "p (seeds)", "verdict",
)  # fmt: skip


def comparison_table(
    runs: Sequence[Run], measures: Sequence[Measure], baseline: str
) -> Table | None:
    """A row per measure and method of one unit; None without a baseline, or another method."""
    methods = list(dict.fromkeys(run.method for run in runs))
    others = [method for method in methods if method != baseline]
    if baseline not in methods or not others:
        return None
    base = [run for run in runs if run.method == baseline]
    rows, counts = [], set()
    for measure in measures:
        compared = [
            _compare([run for run in runs if run.method == method], base, measure)
            for method in others
        ]
        corrected = holm([math.nan if c is None else c.pairs.t for c in compared])
        for method, found, q in zip(others, compared, corrected, strict=True):
            if found is None:
                continue
            counts.add(found.pairs.difference.n)
            rows.append(Row((measure.title, method), _entries(found, q, measure), found.keys))
    if not rows:
        return None
    return Table(
        "tests",
        f"Against {baseline} on {runs[0].unit}",
        ("measure", "method"),
        _HEADS,
        grouped(rows),
        _note(baseline, counts),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def verdict(found: Comparison, corrected: float, sign: int) -> str:
    """What a corrected p says; nothing is said of what cannot be tested.

    >>> verdict(compare_pairs([3.0, 4.0, 5.1], [1.0, 2.0, 3.0]), 0.01, 1)
    'better'
    """
    if math.isnan(corrected):
        return DASH
    if corrected >= LEVEL:
        return "not told apart"
    if not sign:
        return "differs"
    return "better" if found.difference.mean * sign > 0 else "worse"


class _Compared(NamedTuple):
    pairs: Comparison
    over_seeds: float  # p of the t-test over each seed's mean difference
    keys: tuple[str, ...]


def _compare(runs: Sequence[Run], base: Sequence[Run], measure: Measure) -> _Compared | None:
    ones = {run.pair: measure.of(run) for run in runs}
    others = {run.pair: measure.of(run) for run in base}
    a, b, shared = paired_values(ones, others)
    if not shared or not all(map(math.isfinite, (*a, *b))):
        return None
    seeds: dict[int, list[float]] = {}
    for pair, one, other in zip(shared, a, b, strict=True):
        seeds.setdefault(pair[-1], []).append(one - other)
    over_seeds = t_p([float(np.mean(differences)) for differences in seeds.values()])
    keys = sorted(run.key for run in (*runs, *base) if run.pair in set(shared))
    return _Compared(compare_pairs(a, b), over_seeds, tuple(keys))


def _entries(found: _Compared, corrected: float, measure: Measure) -> tuple[Entry, ...]:
    pairs = found.pairs
    told = verdict(pairs, corrected, measure.sign)
    return (
        Entry(str(pairs.difference.n), float(pairs.difference.n), math.nan, 1),
        as_entry(pairs.difference, measure.digits + 1, signed=True),
        number_entry(pairs.effect, 2),
        _p(pairs.t),
        _p(corrected),
        _p(pairs.flips),
        _p(found.over_seeds),
        Entry(told, bold=told in ("better", "worse", "differs")),
    )


def _p(value: float) -> Entry:
    """Four decimals; what is smaller is said to be.

    >>> _p(0.00001).text, _p(0.25).text
    ('< 0.0001', '0.2500')
    """
    if 0 <= value < 0.0001:
        return Entry("< 0.0001", value, math.nan, 1)
    return number_entry(value, 4)


def _note(baseline: str, counts: set[int]) -> str:
    few = min(counts)
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
