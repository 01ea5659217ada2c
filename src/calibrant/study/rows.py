"""Rows of tables: cells of runs, their labels, entries and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any

from calibrant.study.grouping import Values, group_by, varied
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.settings import value_label
from calibrant.study.statistics import best_alike, estimate, numbered
from calibrant.study.table import TableEntry, TableRow, as_entry

__all__ = [
    "Cells",
    "bold_marks",
    "by_method",
    "by_seed",
    "describe_bold",
    "estimates",
    "number_of",
    "record_keys",
    "requested_heads",
    "requested_labels",
    "rows_of",
]

Cells = Mapping[tuple[Any, ...], Sequence[Run]]  # What sets a row apart → its runs

_ONE_SEED = (
    " One seed has no interval and allows no test: it is bold only as the best mean of what was "
    "run with one seed throughout."
)
_FEW_RUNS = (
    " With fewer than five seeds of a method, the test separates only large and steady differences."
)


def by_method(runs: Iterable[Run], axes: Sequence[str] = ()) -> Cells:
    """Group runs by method with its options, by requested values, and by ``axes`` of a run."""

    def key(run: Run) -> tuple[Any, ...]:
        places = (getattr(run, axis) for axis in axes)
        return (run.shown, *requested_labels(run), *places, run.method, run.extra)

    return group_by(runs, key)


def requested_labels(run: Run) -> tuple[str, ...]:
    """Put the values of the requested keys into words."""
    return tuple("default" if value is None else value_label(value) for value in run.by)


def requested_heads(by: Iterable[str]) -> tuple[str, ...]:
    """Put the requested keys into words."""
    return tuple(key.replace("_", " ") for key in by)


def bold_marks(
    cells: Cells,
    measures: Sequence[StudyMeasure],
    block: Callable[[tuple[Any, ...]], Hashable],
) -> dict[tuple[Any, ...], list[bool]]:
    """Mark, per row and measure, the best of each block and what is not significantly different.

    Methods are compared within one value of the requested keys, see :func:`_value_blocks`.
    """
    marks: dict[tuple[Any, ...], list[bool]] = {key: [] for key in cells}
    values = _value_blocks(cells)
    blocks = {key: (block(key), values[key]) for key in cells}
    for measure in measures:
        for place in dict.fromkeys(blocks.values()):
            keys = [key for key in cells if blocks[key] == place]
            columns = [by_seed(cells[key], measure) for key in keys]
            several = numbered(columns) > 1
            for key, marked in zip(keys, best_alike(columns, measure.sign), strict=True):
                marks[key].append(marked and several)
    return marks


def by_seed(cell: Iterable[Run], measure: StudyMeasure) -> dict[int, float]:
    """Return the value of each seed, averaged over widths."""
    seeds: dict[int, list[float]] = {}
    for run in cell:
        seeds.setdefault(run.seed, []).append(measure.of(run))
    return {seed: sum(values) / len(values) for seed, values in seeds.items()}


def estimates(
    cell: Sequence[Run], measures: Sequence[StudyMeasure], bold: Sequence[bool]
) -> list[TableEntry]:
    """Estimate each measure over the runs of a cell."""
    return [
        as_entry(estimate([measure.of(run) for run in cell]), measure.digits, marked)
        for measure, marked in zip(measures, bold, strict=True)
    ]


def number_of(things: Sized) -> TableEntry:
    """Return the number of things as an entry."""
    return TableEntry(str(len(things)), float(len(things)), math.nan, 1)


def record_keys(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the keys of the records behind a row."""
    return tuple(sorted(run.key for run in runs))


def rows_of(
    cells: Cells,
    labels: int,
    entries: Callable[[tuple[Any, ...], Sequence[Run]], Iterable[TableEntry]],
) -> tuple[TableRow, ...]:
    """Make a row per cell: its first ``labels`` keys, the number of seeds, and its entries."""
    return tuple(
        TableRow(
            tuple(map(str, key[:labels])),
            (number_of(cell), *entries(key, cell)),
            record_keys(cell),
        )
        for key, cell in cells.items()
    )


def _value_blocks(cells: Cells) -> dict[tuple[Any, ...], Values]:
    """Return, for each row, the requested values within which it is compared with others.

    With several methods each network is a block. With one method the networks are compared.
    """
    keys = varied([[run for cell in cells.values() for run in cell]])
    found = {
        key: tuple(pair for pair in cell[0].extra if pair[0] in keys) for key, cell in cells.items()
    }
    methods = {(values, cells[key][0].method) for key, values in found.items()}
    alone = len(methods) == len(set(found.values()))
    return dict.fromkeys(found, ()) if alone else found


def describe_bold(cells: Cells, rows: Iterable[TableRow], where: str = "") -> str:
    """Explain bold if anything is bold, and its scope where a requested key differs."""
    marked = any(entry.bold for row in rows for entry in row.entries)
    keys = requested_heads(varied([[run for cell in cells.values() for run in cell]]))
    scope = "within one" if any(_value_blocks(cells).values()) else "whatever the"
    values = f", {scope} {' and '.join(keys)}," if keys else ","
    meaning = (
        f" Bold: the best mean{where}{values} and means that the paired t-test over seeds does not "
        "separate from it (5 %, Holm-corrected)."
    )
    alone = any(len({run.seed for run in cell}) == 1 for cell in cells.values())
    if not marked:
        return " One seed has no interval." if alone else ""
    few = 1 < min(len({run.seed for run in cell}) for cell in cells.values()) < 5
    return meaning + (_ONE_SEED if alone else "") + (_FEW_RUNS if few else "")
