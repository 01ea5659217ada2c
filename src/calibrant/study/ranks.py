"""Methods ranked over corpora: average ranks, Friedman's test and Nemenyi's critical difference.

J. Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets*, JMLR 7 (2006).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from calibrant.distributions import fisher_p, range_quantile
from calibrant.errors import InputError
from calibrant.study.grouping import Units, keys_of, methods_of, with_enough_seeds
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.table import Table, TableRow, grouped, number_entry

__all__ = ["Ranked", "Ranking", "rank_methods", "rank_over", "rank_table", "ranks_of"]

_FEW = 10  # Corpora below which Demšar (2006) finds the tests of ranks weak.


class Ranking(NamedTuple):
    """Average ranks (1 is best), the p of "all the same", and the critical difference."""

    average: tuple[float, ...]
    p: float
    critical_difference: float


def ranks_of(values: np.ndarray) -> np.ndarray:
    """Rank from 1 for the smallest; ties share the mean of their ranks.

    >>> ranks_of(np.array([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    values = np.asarray(values, dtype=float)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2)


def rank_methods(costs: np.ndarray) -> Ranking:
    """Rank ``costs[corpus, method]``, less is better.

    The p is that of Iman & Davenport's (1980) F, (N − 1) χ² / (N (k − 1) − χ²), which is less
    conservative than Friedman's χ²; the critical difference q₀.₀₅(k) √(k (k + 1) / (6 N)).

    >>> rank_methods(np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.1, 0.4, 0.3]])).average
    (1.0, 2.3333333333333335, 2.6666666666666665)
    """
    n, k = costs.shape
    if n < 2 or k < 2:
        raise InputError(f"Ranks need at least 2 corpora and 2 methods, got {n} and {k}.")
    ranks = np.array([ranks_of(row) for row in costs])
    average = ranks.mean(axis=0)
    difference = range_quantile(k) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranking(tuple(map(float, average)), _iman_davenport(ranks), difference)


def _iman_davenport(ranks: np.ndarray) -> float:
    """Return p of F, with χ² = (k − 1) Σⱼ (Σᵢ cᵢⱼ)² / Σᵢⱼ cᵢⱼ² of centred ranks c, with ties."""
    n, k = ranks.shape
    centred = ranks - (k + 1) / 2
    spread = float((centred**2).sum())
    if spread == 0:  # Every corpus is one tie.
        return 1.0
    square = (k - 1) * float((centred.sum(axis=0) ** 2).sum()) / spread
    left = n * (k - 1) - square
    if left <= 1e-9:  # Every corpus ranks them alike.
        return 0.0
    return fisher_p((n - 1) * square / left, k - 1, (k - 1) * (n - 1))


class Ranked(NamedTuple):
    """The ranked methods, the runs that all of them share, and their rankings."""

    methods: list[str]
    shared: Units
    by: Mapping[StudyMeasure, Ranking]


def rank_over(units: Units, measures: Sequence[StudyMeasure]) -> Ranked | None:
    """Rank methods on the runs that all share; None without at least two methods and corpora.

    A method that lacks a corpus, or has one seed where others have more, is left out first, so that
    it does not shrink the comparison of the others. A corpus with few methods is left out too.
    """
    methods, corpora = _largest(units)
    shared = {corpus: _shared(units[corpus], methods) for corpus in corpora}
    shared = {corpus: runs for corpus, runs in shared.items() if runs}
    if len(shared) < 2 or len(methods) < 2:
        return None
    found = _rankings(shared, methods, measures)
    return Ranked(methods, shared, found) if found else None


def _largest(units: Units) -> tuple[list[str], list[str]]:
    """Return the methods (at least two) and corpora that form the largest complete grid."""
    enough = {corpus: with_enough_seeds(runs) for corpus, runs in units.items()}
    methods = methods_of(units)
    where = {m: frozenset(c for c, there in enough.items() if m in there) for m in methods}
    choices = set(where.values())
    for found in where.values():  # What several methods share may be all that none has alone.
        choices |= {found & other for other in choices}

    def cells(corpora: frozenset[str]) -> tuple[int, int]:
        together = sum(corpora <= found for found in where.values())
        return len(corpora) * together if together > 1 else 0, len(corpora)

    several = sorted((found for found in choices if len(found) > 1), key=sorted)
    best = max(several, key=cells, default=frozenset())
    return [m for m in methods if best and best <= where[m]], [c for c in units if c in best]


def rank_table(units: Units, measures: Sequence[StudyMeasure]) -> Table | None:
    """Make a table of average ranks with Friedman's test and Nemenyi's critical difference."""
    ranked = rank_over(units, measures)
    if ranked is None:
        return None
    methods, shared, found = ranked
    rows = [
        TableRow(
            (method,),
            tuple(number_entry(ranking.average[i], 2) for ranking in found.values()),
            keys_of(shared, method),
        )
        for i, method in enumerate(methods)
    ]
    every = tuple(sorted(run.key for runs in shared.values() for run in runs))
    p = TableRow(
        ("p of “all the same”",), tuple(number_entry(r.p, 4) for r in found.values()), every
    )
    return Table(
        "ranks",
        f"Average rank over {len(shared)} corpora",
        ("method",),
        tuple(measure.title for measure in found),
        grouped([*rows, p]),
        _note(ranked) + _left_out(units, ranked),
        measures=tuple(measure.to_dict() for measure in found),
    )


def _rankings(
    shared: Units, methods: Sequence[str], measures: Sequence[StudyMeasure]
) -> Mapping[StudyMeasure, Ranking]:
    """Rank by each measure that has a direction and a value in every run."""
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


def _mean(runs: Sequence[Run], method: str, measure: StudyMeasure) -> float:
    return float(np.mean([measure.of(run) for run in runs if run.method == method]))


def _shared(runs: Sequence[Run], methods: Sequence[str]) -> list[Run]:
    """Return the runs of the pairs that every method has."""
    pairs = [{run.pair for run in runs if run.method == method} for method in methods]
    common = set.intersection(*pairs) if pairs else set()
    return [run for run in runs if run.method in methods and run.pair in common]


def _note(ranked: Ranked) -> str:
    widths = sorted({run.width for runs in ranked.shared.values() for run in runs})
    difference = next(iter(ranked.by.values())).critical_difference
    note = (
        "1 is best; means over the runs that all methods share (width "
        f"{', '.join(map(str, widths))}). Two methods differ at 5 % where their ranks are "
        f"{difference:.2f} apart (Nemenyi's critical difference for {len(ranked.methods)} methods "
        f"on {len(ranked.shared)} corpora); p: Friedman's test in Iman and Davenport's form."
    )
    return note + (" So few corpora leave both little power." * (len(ranked.shared) < _FEW))


def _left_out(units: Units, ranked: Ranked) -> str:
    """Name the methods, corpora and seeds that are left out, and why."""
    few = []
    for method in methods_of(units):
        if method not in ranked.methods:
            lacking = [c for c in ranked.shared if method not in with_enough_seeds(units[c])]
            few.append(f"{method} (too few seeds on {', '.join(lacking)})" if lacking else method)
    seeds = []
    for corpus, runs in ranked.shared.items():
        gone = {run.seed for run in units[corpus]} - {run.seed for run in runs}
        if gone:
            seeds.append(f"{', '.join(map(str, sorted(gone)))} on {corpus}")
    corpora = [corpus for corpus in units if corpus not in ranked.shared]
    note = f" Left out: {', '.join(few)}." if few else ""
    note += f" Corpora that too few methods share: {', '.join(corpora)}." if corpora else ""
    return note + (f" Seeds that not all have: {'; '.join(seeds)}." if seeds else "")
