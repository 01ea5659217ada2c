"""Tables over all corpora: results side by side, and wins, ties and losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from calibrant.distributions import holm
from calibrant.study.grouping import Units, keys_of, methods_of
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.statistics import (
    LEVEL,
    best_alike,
    estimate,
    numbered,
    paired_values,
    t_p,
)
from calibrant.study.table import Table, TableEntry, TableRow, grouped

__all__ = ["wide_table", "win_tables"]

Place = tuple[str, int]

_BOLD = (
    " Bold: the best mean of a width, and means that the paired t-test over seeds does not "
    "separate from it (5 %, Holm-corrected)."
)
Counts = Mapping[tuple[str, str], Sequence[int]]  # A pair of methods → wins, ties, losses
_TESTED = (
    "paired t-test over seeds and widths, 5 %, Holm-corrected over all pairs of methods of a "
    "corpus."
)


def wide_table(units: Units, measures: Sequence[StudyMeasure], calibrator: str) -> Table | None:
    """Make a table of means on every corpus after one calibrator; None if no measure has it."""
    shown = [measure for measure in measures if measure.calibrator == calibrator]
    runs = [run for members in units.values() for run in members]
    if not shown:
        return None
    methods = {label: place for place, label in enumerate(methods_of(units))}
    places = sorted({(r.method, r.width) for r in runs}, key=lambda p: (methods[p[0]], p[1]))
    columns = {
        (unit, measure): _column(members, measure, places)
        for unit, members in units.items()
        for measure in shown
    }
    rows = [
        TableRow(
            (method, str(width)),
            tuple(column[method, width] for column in columns.values()),
            tuple(sorted(r.key for r in runs if (r.method, r.width) == (method, width))),
        )
        for method, width in places
    ]
    compared = len(methods) > 1
    return Table(
        f"all-corpora-{calibrator}",
        "All corpora side by side"
        + ("" if calibrator == "identity" else f", with {calibrator.replace('_', ' ')}"),
        ("method", "width"),
        tuple(measure.title for _, measure in columns),
        grouped(rows),
        "Means over seeds; the tables of each corpus have the intervals."
        + (_BOLD if compared else ""),
        measures=tuple(measure.to_dict() for measure in shown),
        groups=tuple((unit, len(shown)) for unit in units),
    )


def _column(
    runs: Sequence[Run], measure: StudyMeasure, places: Sequence[Place]
) -> dict[Place, TableEntry]:
    values: dict[Place, dict[object, float]] = {place: {} for place in places}
    for run in runs:
        values[run.method, run.width][run.extra, run.seed] = measure.of(run)
    column = {place: TableEntry("") for place in places}
    for width in {width for _, width in places}:
        there = [place for place in places if place[1] == width and values[place]]
        columns = [values[place] for place in there]
        marked = best_alike(columns, measure.sign) if there else []
        several = numbered(columns) > 1
        for place, bold in zip(there, marked, strict=True):
            found = estimate(list(values[place].values()))
            text = found._replace(half=float("nan")).show(measure.digits)
            entry = TableEntry(text, found.mean, found.half, found.n, bold and several)
            column[place] = entry
    return column


def win_tables(units: Units, measures: Sequence[StudyMeasure]) -> list[Table]:
    """Make a table of each method against all others, then one per measure of every pair."""
    methods = methods_of(units)
    found = {m: _counts(units, methods, m) for m in measures if m.sign}
    found = {m: counts for m, counts in found.items() if any(map(sum, counts.values()))}
    if len(methods) < 2 or not found:
        return []
    return [
        _summary(units, methods, found),
        *(_matrix(units, methods, measure, counts) for measure, counts in found.items()),
    ]


def _summary(units: Units, methods: Sequence[str], found: Mapping[StudyMeasure, Counts]) -> Table:
    def entry(method: str, counts: Counts) -> TableEntry:
        against = [_seen_from(method, other, counts) for other in methods if other != method]
        return TableEntry("/".join(str(sum(outcomes)) for outcomes in zip(*against, strict=True)))

    return Table(
        "wins",
        f"Wins/ties/losses over {len(units)} corpora",
        ("method",),
        tuple(measure.title for measure in found),
        tuple(
            TableRow((m,), tuple(entry(m, c) for c in found.values()), keys_of(units, m))
            for m in methods
        ),
        "Comparisons with other methods, over all corpora, in which the method is better, not "
        f"significantly different, and worse: {_TESTED}",
        measures=tuple(measure.to_dict() for measure in found),
    )


def _matrix(units: Units, methods: Sequence[str], measure: StudyMeasure, counts: Counts) -> Table:
    def entry(one: str, other: str) -> TableEntry:
        found = _seen_from(one, other, counts) if one != other else ()
        return TableEntry("/".join(map(str, found)) if any(found) else "")

    return Table(
        f"wins-{measure.calibrator}-{measure.metric}",
        f"Wins/ties/losses in {measure.title}, pair by pair",
        ("method",),
        tuple(methods),
        tuple(
            TableRow((one,), tuple(entry(one, other) for other in methods), keys_of(units, one))
            for one in methods
        ),
        "Corpora on which the row's method is better than the column's, not significantly "
        f"different, and worse: {_TESTED}",
        measures=(measure.to_dict(),),
        closed=True,
    )


def _seen_from(one: str, other: str, counts: Counts) -> Sequence[int]:
    return counts[one, other] if (one, other) in counts else counts[other, one][::-1]


def _counts(units: Units, methods: Sequence[str], measure: StudyMeasure) -> Counts:
    counts = {pair: [0, 0, 0] for pair in combinations(methods, 2)}
    for runs in units.values():
        for pair, outcome in _outcomes(runs, methods, measure).items():
            counts[pair][outcome] += 1
    return counts


def _outcomes(
    runs: Sequence[Run], methods: Sequence[str], measure: StudyMeasure
) -> dict[tuple[str, str], int]:
    """Return, per pair, 0 if the first is better, 1 if no test separates them, 2 if it is worse."""
    columns = {m: {r.pair: measure.of(r) for r in runs if r.method == m} for m in methods}
    tested: dict[tuple[str, str], list[float]] = {}
    for one, other in combinations(methods, 2):
        a, b, _ = paired_values(columns[one], columns[other])
        if len(a) > 1:
            tested[one, other] = [measure.sign * (x - y) for x, y in zip(a, b, strict=True)]
    corrected = holm([t_p(differences) for differences in tested.values()])
    return {
        pair: 1 if q >= LEVEL else (0 if np.mean(differences) > 0 else 2)
        for (pair, differences), q in zip(tested.items(), corrected, strict=True)
        if not math.isnan(q)
    }
