"""Count how often each method has the best mean, here and in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from calibrant.charts.numbers import DASH
from calibrant.study.grouping import Units, keys_of, methods_of, with_enough_seeds
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.table import Table, TableEntry, TableRow

from .printed import PRINTED, paper_methods, paper_value

__all__ = ["best_counts"]


def best_counts(units: Units, measures: Sequence[StudyMeasure]) -> Table | None:
    """Count the cells (corpus × width) in which a method is best, here and in the paper."""
    methods = methods_of(units)
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
        TableRow(
            (method,),
            (
                *(_whole(counts[m].get(method, 0)) for m in counts),
                *(_whole(paper[metric].get(method)) for metric in paper),
            ),
            keys_of(units, method),
        )
        for method in methods
    )
    titles = {metric: StudyMeasure(metric).title for metric in paper}
    return Table(
        "best",
        f"How often best, of {len(cells)} cells",
        ("method",),
        (*(m.title for m in counts), *(f"paper’s {title}" for title in titles.values())),
        rows,
        "Cells (corpus × width) in which the method has the best mean over seeds; a tie counts for "
        "each, and one seed next to several does not count. No test is behind it: of methods that "
        "are all the same, each would be best now and then."
        + (" The paper's columns count the same cells of its own rows." if paper else ""),
        measures=tuple(m.to_dict() for m in counts),
    )


def _count_best(cells: Iterable[Sequence[Run]], measure: StudyMeasure) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cell in cells:
        values: dict[str, list[float]] = {}
        enough = with_enough_seeds(cell)
        for run in cell:
            if run.method in enough:
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
            sign = StudyMeasure(metric).sign
            printed = {
                method: sign * value
                for method in paper_methods()
                if (value := paper_value(cell[0].corpus, method, cell[0].width, metric)) is not None
            }
            for method, value in printed.items():
                won = value == max(printed.values())
                counts[metric][method] = counts[metric].get(method, 0) + won
    return counts if any(counts["ece"].values()) else {}


def _whole(count: int | None) -> TableEntry:
    return TableEntry(DASH) if count is None else TableEntry(str(count), float(count), math.nan, 1)
