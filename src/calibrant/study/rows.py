"""What the rows of most tables have in common: cells of runs, their labels, entries and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any

from calibrant.study.best import best_alike
from calibrant.study.estimate import estimate
from calibrant.study.labels import value_label
from calibrant.study.measures import Measure
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, as_entry

__all__ = [
    "ONE_SEED",
    "Cells",
    "asked_heads",
    "asked_labels",
    "bold_marks",
    "estimates",
    "gather",
    "number_of",
    "one_seed",
    "record_keys",
    "rows_of",
]

Cells = Mapping[tuple[Any, ...], Sequence[Run]]  # What sets a row apart → its runs

ONE_SEED = (
    " One seed has no interval and allows no test: it is bold only as the best mean of what was "
    "run with one seed throughout."
)


def gather(runs: Iterable[Run], identity: Callable[[Run], tuple[Any, ...]]) -> Cells:
    """The runs of each row, in the order in which rows come first."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(identity(run), []).append(run)
    return found


def asked_labels(run: Run) -> tuple[str, ...]:
    """The values of the keys that were asked for, in words."""
    return tuple("default" if value is None else value_label(value) for value in run.by)


def asked_heads(by: Iterable[str]) -> tuple[str, ...]:
    """The keys that were asked for, in words."""
    return tuple(key.replace("_", " ") for key in by)


def bold_marks(
    cells: Cells,
    measures: Sequence[Measure],
    block: Callable[[tuple[Any, ...]], Hashable],
    pair: Callable[[Run], Hashable],
) -> dict[tuple[Any, ...], list[bool]]:
    """Per row and measure, whether it is the best of its block or cannot be told from it."""
    marks: dict[tuple[Any, ...], list[bool]] = {key: [] for key in cells}
    for measure in measures:
        for place in dict.fromkeys(map(block, cells)):
            keys = [key for key in cells if block(key) == place]
            columns = [{pair(run): measure.of(run) for run in cells[key]} for key in keys]
            for key, marked in zip(keys, best_alike(columns, measure.sign), strict=True):
                marks[key].append(marked and len(keys) > 1)
    return marks


def estimates(
    cell: Sequence[Run], measures: Sequence[Measure], bold: Sequence[bool]
) -> list[Entry]:
    """The mean over the runs of a cell, with its interval, of each measure."""
    return [
        as_entry(estimate([measure.of(run) for run in cell]), measure.digits, marked)
        for measure, marked in zip(measures, bold, strict=True)
    ]


def number_of(things: Sized) -> Entry:
    """How many there are."""
    return Entry(str(len(things)), float(len(things)), math.nan, 1)


def record_keys(runs: Iterable[Run]) -> tuple[str, ...]:
    """The keys of the records behind a row."""
    return tuple(sorted(run.key for run in runs))


def rows_of(
    cells: Cells,
    by: Sequence[str],
    entries: Callable[[tuple[Any, ...], Sequence[Run]], Iterable[Entry]],
) -> tuple[Row, ...]:
    """A row per cell: method and what was asked for, the number of seeds, and its entries."""
    return tuple(
        Row(key[: 1 + len(by)], (number_of(cell), *entries(key, cell)), record_keys(cell))
        for key, cell in cells.items()
    )


def one_seed(cells: Cells) -> str:
    """The remark that a table needs where a row has one seed."""
    alone = any(len({run.seed for run in cell}) == 1 for cell in cells.values())
    return ONE_SEED if alone else ""
