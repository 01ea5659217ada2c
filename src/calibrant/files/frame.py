"""Data frames as sources: pandas, polars, Arrow tables, or a dict of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import as_array, from_arrow, text_array
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_layout
from calibrant.files.format import Block, FileKind, Layout, NewScores, Shape
from calibrant.files.reading import assemble
from calibrant.inputs import first_repeated
from calibrant.labels import is_missing
from calibrant.predictions import Predictions

__all__ = ["from_frame"]

_EXACT = 2**53  # Up to it, floats hold every whole number; more are texts beside gaps.


def from_frame(
    frame: Any, columns: Columns = DEFAULT_COLUMNS, kind: FileKind | None = None
) -> Predictions | Claims:
    """Return the predictions of a data frame, whose columns are named as in a file.

    >>> table = {"y_prob": [0.9, 0.2], "y_true": [1, 0], "site": ["A", "B"]}
    >>> from_frame(table).groups["site"].tolist()
    ['A', 'B']
    """
    check_kind("from_frame", columns, Columns)
    source = FrameSource(frame)
    layout = find_layout(source, columns, kind)
    block = next(source.blocks(len(source), layout))
    return assemble(source.path, block, layout, layout.label_names, 0)


class FrameSource:
    """A data frame, read as a file of one block."""

    path = Path("frame")

    def __init__(self, frame: Any) -> None:
        frame = _in_memory(frame)
        names = getattr(frame, "column_names", getattr(frame, "columns", None))
        if isinstance(frame, Mapping):
            names = frame.keys()
        if names is None or callable(names):
            raise InputError(
                "from_frame takes a pandas or polars DataFrame, an Arrow table, a result of DuckDB "
                f"or a dict of columns, got a {type(frame).__name__}."
            )
        if (twice := first_repeated(map(str, names))) is not None:
            raise InputError(f"from_frame got two columns that are called '{twice}'.")
        self._columns = {str(name): _column(frame[name]) for name in names}
        for name, column in self._columns.items():
            if not column.ndim:
                raise InputError(f"from_frame expects a list or an array as column '{name}'.")
        if len({len(column) for column in self._columns.values()}) > 1:
            raise InputError("from_frame expects columns of one length.")

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    @property
    def columns(self) -> Mapping[str, Shape]:
        """The shape of one row of each column."""
        return {name: column.shape[1:] for name, column in self._columns.items()}

    def length(self, column: str) -> int | None:
        """Return the number of rows."""
        return len(self._columns[column])

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return None: a frame has names only in those of its columns."""
        return None

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:  # noqa: ARG002
        """Yield all rows at once."""
        columns = {name: self._columns[name] for name in layout.names}
        yield Block(columns, range(len(self)))

    def rewrite(self, target: Path, new: NewScores) -> None:  # noqa: ARG002
        """Refuse, because a frame is not a file."""
        raise InputError(
            "A data frame is not rewritten; calibrator.transform calibrates predictions."
        )


def _in_memory(frame: Any) -> Any:
    """Return what is computed or read first, such as a result of DuckDB, as a table."""
    library = type(frame).__module__.split(".")[0]
    if library == "polars" and hasattr(frame, "collect"):
        return frame.collect()
    streams = hasattr(frame, "__arrow_c_stream__") and library not in ("pandas", "polars")
    if isinstance(frame, Mapping) or not streams:
        return frame
    return require("pyarrow", "files", "Reading an Arrow stream").table(frame)


def _column(column: Any) -> np.ndarray:
    """Return numbers, text, or rows of numbers; a missing value among text is ''."""
    given, column = column, from_arrow(column)
    array = column.to_numpy() if hasattr(column, "to_numpy") else as_array(column)
    array = np.asarray(array)
    whole = "int" in str(getattr(given, "type", getattr(given, "dtype", ""))).lower()
    if whole and array.dtype.kind == "f" and (abs(array) > _EXACT).any():
        array = np.array(given.to_pylist() if given is not column else list(given), object)
    if array.dtype != object:
        return array
    values = array.tolist()
    first = next((value for value in values if not is_missing(value)), None)
    if isinstance(first, (list, tuple, np.ndarray)):
        try:
            return np.stack([np.asarray(value) for value in values])
        except ValueError:
            raise InputError("from_frame got lists of different lengths in a column.") from None
    numbers = all(is_missing(v) or isinstance(v, (int, float, np.number)) for v in values)
    exact = numbers and all(
        isinstance(v, float) or is_missing(v) or abs(v) <= _EXACT for v in values
    )
    if exact and not isinstance(first, bool):
        return np.array([np.nan if is_missing(value) else value for value in values])
    return text_array(["" if is_missing(value) else str(value) for value in values])
