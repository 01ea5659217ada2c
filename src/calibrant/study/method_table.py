"""Tables with a row per method and a column per measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from calibrant.study.measures import Measure
from calibrant.study.rows import (
    asked_heads,
    bold_marks,
    by_method,
    estimates,
    rows_of,
    told_bold,
)
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Table

__all__ = ["method_table"]

Entries = Callable[[Sequence[Run], Sequence[Measure], Sequence[bool]], Iterable[Entry]]


def method_table(
    name: str,
    title: str,
    note: str,
    runs: Sequence[Run],
    measures: Sequence[Measure],
    by: Sequence[str],
    entries: Entries = estimates,
) -> Table:
    """A row per method (and value of the keys asked for): its seeds, and each measure.

    The note is followed by what bold means.
    """
    cells = by_method(runs)
    bold = bold_marks(cells, measures, lambda _: 0)
    rows = rows_of(cells, by, lambda key, cell: entries(cell, measures, bold[key]))
    return Table(
        name,
        title,
        ("method", *asked_heads(by)),
        ("seeds", *(measure.title for measure in measures)),
        rows,
        f"{note}{told_bold(cells, rows)}",
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )
