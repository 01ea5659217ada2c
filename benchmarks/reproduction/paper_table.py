"""Our numbers and the papers' in pairs of columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from calibrant.charts.numbers import show
from calibrant.study.grouping import group_by
from calibrant.study.measures import StudyMeasure
from calibrant.study.rows import (
    estimates,
    number_of,
    record_keys,
    requested_heads,
    requested_labels,
)
from calibrant.study.runs import Run
from calibrant.study.table import Table, TableEntry, TableRow, grouped, number_entry

from .printed import citation, image_source, image_value, paper_value

__all__ = ["paper_table"]

_DIGITS = {"entity_f1": 3, "ece": 3, "apcr": 2}  # Of Table I; the other papers print more.


def paper_table(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]
) -> Table | None:
    """Make a row per method and width that a paper has; None where it has none."""
    printed = _printed_measures(runs, measures)
    if not printed:
        return None
    cells = group_by(
        [run for run in runs if _printed_measures([run], printed)],
        lambda run: (run.shown, *requested_labels(run), str(run.width), run.method, run.extra),
    )
    rows = [
        TableRow(key[: 2 + len(by)], (number_of(cell), *_entries(cell, printed)), record_keys(cell))
        for key, cell in cells.items()
    ]
    return Table(
        "paper",
        f"Beside the paper’s numbers on {runs[0].unit}",
        ("method", *requested_heads(by), "width"),
        ("seeds", *("here", "paper") * len(printed)),
        grouped(rows),
        "Here: means over seeds, whose intervals the results have. (T): with the temperature that "
        f"was fitted on the validation split. The paper: {_citation(runs)}.",
        runs[0].unit,
        tuple(measure.to_dict() for measure in printed),
        groups=(("", 1), *((measure.title, 2) for measure in printed)),
    )


def _printed_measures(runs: Sequence[Run], measures: Iterable[StudyMeasure]) -> list[StudyMeasure]:
    """Return the measures that a paper prints for any of the runs."""
    return [
        measure
        for measure in measures
        if any(not math.isnan(_printed(run, measure)) for run in runs)
    ]


def _printed(run: Run, measure: StudyMeasure) -> float:
    """Return the paper's number for a run; NaN where it has none.

    Table I is of heads of depth 1; its rows are compared with any options of the method.
    """
    recipe = run.record.recipe
    found = image_value(recipe, measure.metric, measure.calibrator)
    if found is None and run.depth == 1 and measure.calibrator == "identity":
        found = paper_value(run.corpus, recipe.method, run.width, measure.metric)
    return math.nan if found is None else found


def _entries(cell: Sequence[Run], measures: Sequence[StudyMeasure]) -> list[TableEntry]:
    """Return our mean and the paper's number of each measure."""
    ours = estimates(cell, measures, [False] * len(measures))
    return [
        entry
        for measure, one in zip(measures, ours, strict=True)
        for entry in (
            replace(one, text=show(one.value, measure.digits)),
            number_entry(_printed(cell[0], measure), _digits(cell[0], measure)),
        )
    ]


def _digits(run: Run, measure: StudyMeasure) -> int:
    return 4 if image_source(run.record.recipe) else _DIGITS.get(measure.metric, 4)


def _citation(runs: Iterable[Run]) -> str:
    sources = (image_source(run.record.recipe) for run in runs)
    return citation(source for source in sources if source is not None)
