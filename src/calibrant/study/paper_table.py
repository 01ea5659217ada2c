"""Ours and the paper's numbers in pairs, where results have too many columns to hold both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.study.estimate import show
from calibrant.study.measures import Measure
from calibrant.study.paper_columns import (
    citation,
    paper_entries,
    printed_beside,
    printed_measures,
)
from calibrant.study.rows import (
    asked_heads,
    asked_labels,
    estimates,
    gather,
    number_of,
    record_keys,
)
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table, grouped

__all__ = ["paper_table"]


def paper_table(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> Table | None:
    """A row per method and width that the paper has; None where it stands beside the results."""
    printed = printed_measures(runs, measures)
    if not printed or printed_beside(runs, measures):
        return None
    cells = gather(
        [run for run in runs if printed_measures([run], printed)],
        lambda run: (run.shown, *asked_labels(run), str(run.width), run.method, run.extra),
    )
    rows = [
        Row(key[: 2 + len(by)], (number_of(cell), *_entries(cell, printed)), record_keys(cell))
        for key, cell in cells.items()
    ]
    return Table(
        "paper",
        f"Beside the paper’s numbers on {runs[0].unit}",
        ("method", *asked_heads(by), "width"),
        ("seeds", *("here", "paper") * len(printed)),
        grouped(rows),
        "Here: means over seeds, whose intervals the results have. (T): with the temperature that "
        f"was fitted on the validation split. The paper: {citation(runs)}.",
        runs[0].unit,
        tuple(measure.to_dict() for measure in printed),
        groups=(("", 1), *((measure.title, 2) for measure in printed)),
    )


def _entries(cell: Sequence[Run], measures: Sequence[Measure]) -> list[Entry]:
    ours = estimates(cell, measures, [False] * len(measures))
    theirs = paper_entries(cell, measures)
    return [
        entry
        for measure, one, other in zip(measures, ours, theirs, strict=True)
        for entry in (replace(one, text=show(one.value, measure.digits)), other)
    ]
