"""Average ranks of methods over corpora, with the distance that tells two apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from calibrant.study.measures import Measure
from calibrant.study.ranks import Ranking, rank_methods
from calibrant.study.runs import Run
from calibrant.study.table import Row, Table, grouped, number_entry
from calibrant.study.units import Units, keys_of, methods_of

__all__ = ["Ranked", "rank_over", "rank_table"]

_FEW = 10  # Corpora below which Demšar (2006) finds the tests of ranks weak.


class Ranked(NamedTuple):
    """The methods that were run on every corpus, the runs that all share, their rankings."""

    methods: list[str]
    shared: Units
    by: Mapping[Measure, Ranking]


def rank_over(units: Units, measures: Sequence[Measure]) -> Ranked | None:
    """Rank on the runs that all methods share; None where there is nothing to rank."""
    methods = [
        method
        for method in methods_of(units)
        if all(any(run.method == method for run in runs) for runs in units.values())
    ]
    shared = {corpus: _shared(runs, methods) for corpus, runs in units.items()}
    shared = {corpus: runs for corpus, runs in shared.items() if runs}
    if len(shared) < 2 or len(methods) < 2:
        return None
    found = _rankings(shared, methods, measures)
    return Ranked(methods, shared, found) if found else None


def rank_table(units: Units, measures: Sequence[Measure]) -> Table | None:
    """Average ranks over corpora with Friedman's test and Nemenyi's critical difference."""
    ranked = rank_over(units, measures)
    if ranked is None:
        return None
    methods, shared, found = ranked
    rows = [
        Row(
            (method,),
            tuple(number_entry(ranking.average[i], 2) for ranking in found.values()),
            keys_of(shared, method),
        )
        for i, method in enumerate(methods)
    ]
    p = Row(("p of “all the same”",), tuple(number_entry(r.p, 4) for r in found.values()))
    left_out = [method for method in methods_of(units) if method not in methods]
    return Table(
        "ranks",
        f"Average rank over {len(shared)} corpora",
        ("method",),
        tuple(measure.title for measure in found),
        grouped([*rows, p]),
        _note(shared, len(methods), next(iter(found.values())).critical_difference, left_out),
        measures=tuple(measure.to_dict() for measure in found),
    )


def _rankings(
    shared: Units, methods: Sequence[str], measures: Sequence[Measure]
) -> Mapping[Measure, Ranking]:
    """The ranking by each measure that has a best and that every run has."""
    found = {}
    for measure in measures:
        costs = np.array(
            [
                [-measure.sign * _mean(runs, method, measure) for method in methods]
                for runs in shared.values()
            ]
        )
        if measure.sign and not np.isnan(costs).any():
            found[measure] = rank_methods(costs)
    return found


def _mean(runs: Sequence[Run], method: str, measure: Measure) -> float:
    return float(np.mean([measure.of(run) for run in runs if run.method == method]))


def _shared(runs: Sequence[Run], methods: Sequence[str]) -> list[Run]:
    """The runs of the pairs that every method has, so that all stand on the same footing."""
    pairs = [{run.pair for run in runs if run.method == method} for method in methods]
    common = set.intersection(*pairs) if pairs else set()
    return [run for run in runs if run.method in methods and run.pair in common]


def _note(shared: Units, methods: int, difference: float, left_out: Sequence[str]) -> str:
    widths = sorted({run.width for runs in shared.values() for run in runs})
    said = (
        "1 is best; means over the runs that all methods share (width "
        f"{', '.join(map(str, widths))}). Two methods differ at 5 % where their ranks are "
        f"{difference:.2f} apart (Nemenyi's critical difference for {methods} methods on "
        f"{len(shared)} corpora); p: Friedman's test in Iman and Davenport's form."
    )
    if len(shared) < _FEW:
        said += " So few corpora leave both little power."
    return said + (f" Not on all corpora: {', '.join(left_out)}." if left_out else "")
