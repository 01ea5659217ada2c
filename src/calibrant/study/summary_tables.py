"""Over all corpora: wins, ties and losses, how often best, and average ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from calibrant.study.best import LEVEL, paired_values
from calibrant.study.measures import Measure
from calibrant.study.paired import holm, t_p
from calibrant.study.paper import PRINTED, paper_methods, paper_value
from calibrant.study.ranks import Ranking, rank_methods
from calibrant.study.runs import Run, method_order
from calibrant.study.table import Entry, Row, Table, number_entry

__all__ = ["Units", "best_counts", "rank_table", "win_table"]

Units = Mapping[str, Sequence[Run]]  # unit → its runs; all of one setting


def win_table(units: Units, measure: Measure) -> Table | None:
    """Row against column: on how many corpora it is better, not told apart, worse."""
    methods = _methods(units)
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

    keys = tuple(sorted(run.key for runs in units.values() for run in runs))
    rows = tuple(
        Row((one,), tuple(entry(one, other) for other in methods), keys) for one in methods
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
        pair: 1 if not q < LEVEL else (0 if np.mean(differences) > 0 else 2)
        for (pair, differences), q in zip(tested.items(), corrected, strict=True)
    }


def best_counts(units: Units, measures: Sequence[Measure]) -> Table | None:
    """In how many cells (corpus × width) a method has the best mean, here and in the paper."""
    methods = _methods(units)
    cells = [
        [run for run in runs if run.width == width]
        for runs in units.values()
        for width in sorted({run.width for run in runs})
    ]
    cells = [cell for cell in cells if len({run.method for run in cell}) > 1]
    if not cells:
        return None
    counts = {m: _count_best(cells, m) for m in measures if m.sign}
    paper = _paper_counts(cells) if set(paper_methods()) <= set(methods) else {}
    rows = tuple(
        Row(
            (method,),
            (
                *(_whole(counts[m].get(method, 0)) for m in counts),
                *(_whole(paper[metric].get(method, 0)) for metric in paper),
            ),
            tuple(sorted(r.key for runs in units.values() for r in runs if r.method == method)),
        )
        for method in methods
    )
    titles = {metric: Measure(metric).title for metric in paper}
    return Table(
        "best",
        f"How often best, of {len(cells)} cells",
        ("method",),
        (*(m.title for m in counts), *(f"{title} in the paper" for title in titles.values())),
        rows,
        "Cells (corpus × width) in which the method has the best mean over seeds; a tie counts for "
        "each. No test is behind it: of methods that are all the same, each would be best now and "
        "then." + (" The paper's columns count the same cells of its own rows." if paper else ""),
        measures=tuple(m.to_dict() for m in counts),
    )


def _count_best(cells: Iterable[Sequence[Run]], measure: Measure) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cell in cells:
        values: dict[str, list[float]] = {}
        for run in cell:
            values.setdefault(run.method, []).append(measure.sign * measure.of(run))
        means = {method: float(np.mean(found)) for method, found in values.items()}
        top = max((mean for mean in means.values() if not math.isnan(mean)), default=math.nan)
        for method, mean in means.items():
            counts[method] = counts.get(method, 0) + (mean == top)
    return counts


def _paper_counts(cells: Iterable[Sequence[Run]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {metric: {} for metric in PRINTED}
    for cell in cells:
        for metric in PRINTED:
            sign = Measure(metric).sign
            printed = {
                method: sign * value
                for method in paper_methods()
                if (value := paper_value(cell[0].corpus, method, cell[0].width, metric)) is not None
            }
            for method, value in printed.items():
                won = value == max(printed.values())
                counts[metric][method] = counts[metric].get(method, 0) + won
    return counts if any(counts["ece"].values()) else {}


def rank_table(units: Units, measures: Sequence[Measure]) -> Table | None:
    """Average ranks over corpora with Friedman's test and Nemenyi's critical difference."""
    methods = [m for m in _methods(units) if all(_has(runs, m) for runs in units.values())]
    shared = {unit: _shared(runs, methods) for unit, runs in units.items()}
    shared = {unit: runs for unit, runs in shared.items() if runs}
    if len(shared) < 2 or len(methods) < 2:
        return None
    found = {m: _rank(shared, methods, m) for m in measures if m.sign}
    found = {measure: ranking for measure, ranking in found.items() if ranking is not None}
    if not found:
        return None
    rows = [
        Row(
            (method,),
            tuple(number_entry(ranking.average[i], 2) for ranking in found.values() if ranking),
            tuple(sorted(r.key for runs in shared.values() for r in runs if r.method == method)),
        )
        for i, method in enumerate(methods)
    ]
    p = Row(
        ("p of “all the same”",),
        tuple(number_entry(r.p, 4) for r in found.values() if r),
        first=True,
    )
    difference = next(ranking for ranking in found.values() if ranking).critical_difference
    left_out = [m for m in _methods(units) if m not in methods]
    widths = sorted({run.width for runs in shared.values() for run in runs})
    return Table(
        "ranks",
        f"Average rank over {len(shared)} corpora",
        ("method",),
        tuple(m.title for m in found),
        (*rows, p),
        f"1 is best; means over the runs that all methods share (width "
        f"{', '.join(map(str, widths))}). Two methods differ at 5 % where their ranks are "
        f"{difference:.2f} apart (Nemenyi's critical difference for {len(methods)} methods on "
        f"{len(shared)} corpora); p: Friedman's test in Iman and Davenport's form. So few corpora "
        "leave it little power."
        + (f" Not on all corpora: {', '.join(left_out)}." if left_out else ""),
        measures=tuple(m.to_dict() for m in found),
    )


def _rank(shared: Units, methods: Sequence[str], measure: Measure) -> Ranking | None:
    costs = np.array(
        [
            [
                -measure.sign * np.mean([measure.of(run) for run in runs if run.method == method])
                for method in methods
            ]
            for runs in shared.values()
        ]
    )
    return None if np.isnan(costs).any() else rank_methods(costs)


def _shared(runs: Sequence[Run], methods: Sequence[str]) -> list[Run]:
    """The runs of the pairs that every method has, so that all stand on the same footing."""
    pairs = [{run.pair for run in runs if run.method == method} for method in methods]
    common = set.intersection(*pairs) if pairs else set()
    return [run for run in runs if run.method in methods and run.pair in common]


def _has(runs: Iterable[Run], method: str) -> bool:
    return any(run.method == method for run in runs)


def _methods(units: Units) -> list[str]:
    return method_order({run.method for runs in units.values() for run in runs})


def _whole(count: int) -> Entry:
    return Entry(str(count), float(count), math.nan, 1)
