"""Wins, ties and losses of every method against every other, over corpora."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from calibrant.study.best import LEVEL, paired_values
from calibrant.study.measures import Measure
from calibrant.study.paired import holm, t_p
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table
from calibrant.study.units import Units, keys_of, methods_of

__all__ = ["win_table"]


def win_table(units: Units, measure: Measure) -> Table | None:
    """Row against column: on how many corpora it is better, not told apart, worse."""
    methods = methods_of(units)
    counts = {pair: [0, 0, 0] for pair in combinations(methods, 2)}
    for runs in units.values():
        for pair, outcome in _outcomes(runs, methods, measure).items():
            counts[pair][outcome] += 1
    if len(methods) < 2 or not any(map(sum, counts.values())):
        return None

    def entry(one: str, other: str) -> Entry:
        if one == other:
            return Entry("")
        found = counts[one, other] if (one, other) in counts else counts[other, one][::-1]
        return Entry("/".join(map(str, found)) if any(found) else "")

    rows = tuple(
        Row((one,), tuple(entry(one, other) for other in methods), keys_of(units, one))
        for one in methods
    )
    return Table(
        f"wins-{measure.map}-{measure.metric}",
        f"Wins/ties/losses in {measure.title} over {len(units)} corpora",
        ("method",),
        tuple(methods),
        rows,
        "Corpora on which the row's method is better than, not told apart from, and worse than the "
        "column's: paired t-test over seeds and widths, 5 %, Holm-corrected over all pairs of "
        "methods of a corpus.",
        measures=(measure.to_dict(),),
        closed=True,
    )


def _outcomes(
    runs: Sequence[Run], methods: Sequence[str], measure: Measure
) -> dict[tuple[str, str], int]:
    """0 where the first of a pair is better, 1 where nothing tells them apart, 2 where worse."""
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
