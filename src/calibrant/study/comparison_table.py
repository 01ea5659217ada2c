"""Tables of each method against the baseline: differences at a glance, and every test of them.

If a requested key has several values (networks side by side), each value is compared separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from calibrant.charts.numbers import DASH
from calibrant.distributions import holm
from calibrant.study.grouping import Values, by_value, describe_values, varied
from calibrant.study.measures import StudyMeasure, in_parts
from calibrant.study.rows import requested_heads
from calibrant.study.runs import Run
from calibrant.study.statistics import (
    LEVEL,
    PairedComparison,
    compare_pairs,
    paired_values,
    smallest_p,
    t_p,
)
from calibrant.study.table import Table, TableEntry, TableRow, as_entry, grouped, number_entry

__all__ = [
    "Compared",
    "Differences",
    "compare_runs",
    "comparison_tables",
    "differences_of",
    "verdict",
]

_HEADS = (
    "pairs", "difference", "effect", "p", "p (Holm)", "p (sign flips)", "p (seeds)", "verdict",
)  # fmt: skip
_SIGNIFICANT = ("better", "worse", "differs")


class _Found(NamedTuple):
    """The comparisons, and how the tables name them."""

    parts: Mapping[Values, Differences]  # By requested values; () if none differs
    methods: Sequence[str]
    measures: Sequence[StudyMeasure]
    words: tuple[str, ...]  # The keys in words
    unit: str
    baseline: str
    alone: Sequence[Values] = ()  # With runs of other methods, but none of the baseline.

    @property
    def untested(self) -> str:
        """Name the values at which nothing is compared; empty if there are none."""
        values = "; ".join(map(describe_values, self.alone))
        return f" Not compared, as {self.baseline} has no run there: {values}." if values else ""

    @property
    def within(self) -> str:
        """Describe the runs of the baseline that a method is compared with."""
        return f" of the same {' and '.join(self.words)}" if self.words else ""

    def places(self) -> Iterable[tuple[str, Values, Differences]]:
        """Yield one method and value at a time, in the order of tables."""
        return ((m, values, there) for m in self.methods for values, there in self.parts.items())


def comparison_tables(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], baseline: str
) -> list[Table]:
    """Make the tables of differences and tests; none without a baseline or another method."""
    keys = varied([runs])
    parts = {
        values: differences_of(members, measures, baseline)
        for values, members in by_value(runs, keys).items()
    }
    known = {values: differences for values, differences in parts.items() if differences}
    if not known:
        return []
    methods = list(dict.fromkeys(run.method for run in runs))
    shown = [measure for measure in measures if any(measure in there for there in known.values())]
    alone = [
        values
        for values, members in by_value(runs, keys).items()
        if baseline not in {run.method for run in members}
    ]
    found = _Found(known, methods, shown, requested_heads(keys), runs[0].unit, baseline, alone)
    columns = in_parts(shown).items()
    return [*(_differences(found, part).part(words) for words, part in columns), _tests(found)]


def _differences(found: _Found, measures: Sequence[StudyMeasure]) -> Table:
    """Make a row per method and value, and a column per measure."""
    rows = []
    for method, values, there in found.places():
        compared = [there.get(measure, {}).get(method) for measure in measures]
        keys = {key for one in compared if one is not None for key in one.keys}
        if keys:
            entries = map(_difference, compared, measures)
            rows.append(TableRow(_labels(method, values), tuple(entries), tuple(sorted(keys))))
    one = f" of one {' and '.join(found.words)}" if found.words else ""
    return Table(
        "differences",
        f"Difference from {found.baseline} on {found.unit}",
        ("method", *found.words),
        tuple(measure.title for measure in measures),
        grouped(rows) if found.words else tuple(rows),
        f"Method minus {found.baseline}{found.within}, paired by seed and head width, ± half of a "
        "95 % t-interval. Bold, with its direction: significant by the paired t-test (5 %, "
        f"Holm-corrected over the methods{one}).{found.untested}",
        found.unit,
        tuple(measure.to_dict() for measure in measures),
    )


def _labels(method: str, values: Values) -> tuple[str, ...]:
    return (method, *(value for _, value in values))


def _difference(found: Compared | None, measure: StudyMeasure) -> TableEntry:
    if found is None:
        return TableEntry("")
    outcome = verdict(found.pairs, found.corrected, measure.sign)
    difference = found.pairs.difference
    text = difference.show(measure.digits, signed=True)
    if outcome in _SIGNIFICANT:
        return TableEntry(f"{text} {outcome}", difference.mean, difference.half, difference.n, True)
    return TableEntry(text, difference.mean, difference.half, difference.n)


def _tests(found: _Found) -> Table:
    """Make a row per measure, method and value, with every test."""
    tested = [
        (measure, _labels(method, values), there[measure][method])
        for measure in found.measures
        for method, values, there in found.places()
        if method in there.get(measure, {})
    ]
    return Table(
        "tests",
        f"Tests against {found.baseline} on {found.unit}",
        ("measure", "method", *found.words),
        _HEADS,
        grouped(
            TableRow((m.title, *labels), _entries(one, m), one.keys) for m, labels, one in tested
        ),
        _note(found, min(one.pairs.difference.n for _, _, one in tested)),
        found.unit,
        tuple(measure.to_dict() for measure in found.measures),
        closed=True,
    )


def _entries(found: Compared, measure: StudyMeasure) -> tuple[TableEntry, ...]:
    pairs = found.pairs
    outcome = verdict(pairs, found.corrected, measure.sign)
    return (
        TableEntry(str(pairs.difference.n), float(pairs.difference.n), math.nan, 1),
        as_entry(pairs.difference, measure.digits + 1, signed=True),
        number_entry(pairs.effect, 2),
        _p(pairs.t),
        _p(found.corrected),
        _p(pairs.flips),
        _p(found.over_seeds),
        TableEntry(outcome, bold=outcome in _SIGNIFICANT),
    )


def _p(value: float) -> TableEntry:
    """Show p with four decimals; smaller values are shown as such.

    >>> _p(0.00001).text, _p(0.25).text
    ('< 0.0001', '0.2500')
    """
    if 0 <= value < 0.0001:
        return TableEntry("< 0.0001", value, math.nan, 1)
    return number_entry(value, 4)


def _note(found: _Found, few: int) -> str:
    also = "".join(f" and {word}" for word in found.words)
    note = (
        f"Method minus {found.baseline}{found.within}, paired by seed and head width, ± half of a "
        "95 % t-interval; runs of one seed at several widths count as independent pairs. Effect: "
        "mean difference over its standard deviation. p: paired t-test, both sides; Holm: "
        f"corrected for all methods of the same measure{also}; sign flips: permutation test, exact "
        "up to 16 pairs; seeds: t-test of each seed's mean difference over widths, uncorrected, "
        "which does not assume that independence. The verdict uses the corrected p at 5 %."
    )
    if smallest_p(few) > LEVEL:
        pairs = "1 pair" if few == 1 else f"{few} pairs"
        note += (
            f" With {pairs} the p of a sign-flip test cannot fall below {smallest_p(few):.4g}, "
            "whatever the difference, and the t-test assumes normal differences: at least 6 pairs "
            "are needed to avoid that assumption."
        )
    return note + found.untested


class Compared(NamedTuple):
    """Paired runs compared, over pairs and over seeds, and the keys of their records."""

    pairs: PairedComparison
    over_seeds: float  # p of the t-test over each seed's mean difference
    keys: tuple[str, ...]
    corrected: float = math.nan  # Holm's p among the methods of one measure


# Measure, then method → its comparison with the baseline; a method without shared runs is absent.
Differences = dict[StudyMeasure, dict[str, Compared]]


def differences_of(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], baseline: str
) -> Differences:
    """Compare all methods with the baseline, corrected for the number of methods."""
    base = [run for run in runs if run.method == baseline]
    methods = list(dict.fromkeys(run.method for run in runs if run.method != baseline))
    found: Differences = {}
    for measure in measures:
        compared = {
            method: compare_runs([run for run in runs if run.method == method], base, measure)
            for method in methods
        }
        known = {method: pairs for method, pairs in compared.items() if pairs is not None}
        corrected = holm([pairs.pairs.t for pairs in known.values()])
        if known:
            found[measure] = {
                method: pairs._replace(corrected=q)
                for (method, pairs), q in zip(known.items(), corrected, strict=True)
            }
    return found


def compare_runs(
    runs: Sequence[Run], base: Sequence[Run], measure: StudyMeasure
) -> Compared | None:
    """Compare runs with those of the baseline; None without pairs or with a missing number."""
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
    return Compared(compare_pairs(a, b), over_seeds, tuple(keys))


def verdict(found: PairedComparison, corrected: float, sign: int) -> str:
    """Put a corrected p into words; a dash where no test is possible.

    >>> verdict(compare_pairs([3.0, 4.0, 5.1], [1.0, 2.0, 3.0]), 0.01, 1)
    'better'
    """
    if math.isnan(corrected):
        return DASH
    if corrected >= LEVEL:
        return "no significant difference"
    if not sign:
        return "differs"
    return "better" if found.difference.mean * sign > 0 else "worse"
