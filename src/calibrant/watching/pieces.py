"""Cut a stream into pieces of one chunk each that never cut a unit, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar

import numpy as np

from calibrant.arguments import check_unweighted
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files import LABELLED
from calibrant.files.format import joined
from calibrant.predictions import Predictions
from calibrant.watching.reference import unit_starts

__all__ = ["Pieces", "labelled_rows", "unit_column", "unlabelled"]

_MOST_ROWS = 1 << 16  # Of a piece.
_UNITS = ("sentence", "image")

Examples: TypeAlias = Predictions | Claims
_Same = TypeVar("_Same", Predictions, Claims)


def unlabelled(predictions: _Same) -> _Same:
    """Return the same predictions without their labels.

    >>> p = Predictions.from_logits([[1.0, 0.0]], [0])
    >>> unlabelled(p).groups
    {'labelled': array([False])}
    """
    nothing = np.zeros(len(predictions), bool)
    return replace(predictions, groups={**predictions.groups, LABELLED: nothing})


def labelled_rows(predictions: Examples) -> np.ndarray:
    """Return which rows have a label that means something."""
    column = predictions.groups.get(LABELLED)
    if column is None:
        return np.ones(len(predictions), bool)
    return np.asarray(column).astype(bool)


class Pieces:
    """Pieces of a stream with the name of their chunk.

    Chunks have ``rows`` rows, and the rest of the last unit; or they are the values of the group
    ``per``: each is one chunk, also if its rows do not follow each other.
    """

    def __init__(
        self,
        source: Examples | Iterable[Examples],
        rows: int,
        per: str | None,
        by: str | None,
    ) -> None:
        self.source = [source] if isinstance(source, (Predictions, Claims)) else source
        self.rows, self.per, self.wanted = int(rows), per, by
        self.by: str | None = None
        self.ignored = 0

    @property
    def dropped(self) -> str:
        """Say how many rows were ignored."""
        return f" ({self.ignored:,} are labelled −100, which marks rows to ignore)" * bool(
            self.ignored
        )

    def __iter__(self) -> Iterator[tuple[str, Examples]]:
        named = self._by_value() if self.per is not None else self._by_rows()
        for name, piece in named:
            for start in range(0, len(piece), self._size(piece)):
                yield name, piece[start : start + self._size(piece)]

    def _size(self, piece: Examples) -> int:
        """Return how many rows may be taken at once; units must not be cut."""
        return _MOST_ROWS if self.by is None else max(len(piece), 1)

    def _whole_units(self) -> Iterator[Examples]:
        """Yield the stream in parts that end where a unit ends."""
        waiting: list[Examples] = []
        first: Examples | None = None
        for part in self.source:
            if not isinstance(part, (Predictions, Claims)):
                raise InputError(
                    f"watch expects a stream of Predictions or Claims, got {type(part).__name__}."
                )
            check_unweighted("watch", part, "it counts every row of a stream alike")
            self.ignored += part.ignored
            if first is None:
                first = part
                self.by = unit_column(part, self.wanted)
                self._check_per(part)
            _check_same(first, part)
            part = part.numpy()
            if not len(part):
                continue
            if self.by is None:
                yield part
                continue
            last = int(unit_starts(part, self.by)[-1])
            column = part.groups[self.by]
            if waiting and column[0] != waiting[-1].groups[self.by][-1]:
                yield joined(waiting)
                waiting = []
            if last:
                yield joined([*waiting, part[:last]])
                waiting = []
            waiting.append(part[last:])
        if waiting:
            yield joined(waiting)

    def _check_per(self, part: Examples) -> None:
        if self.per is not None and self.per not in part.groups:
            known = ", ".join(part.groups) or "none"
            raise InputError(f"There is no column '{self.per}' to group by; columns: {known}.")

    def _by_rows(self) -> Iterator[tuple[str, Examples]]:
        number, filled = 1, 0
        for part in self._whole_units():
            ends = np.r_[unit_starts(part, self.by)[1:], len(part)]
            start = 0
            while start < len(part):
                stop = int(ends[np.searchsorted(ends, min(start + self.rows - filled, len(part)))])
                yield f"{number}", part[start:stop]
                filled, start = filled + stop - start, stop
                if filled >= self.rows:
                    number, filled = number + 1, 0

    def _by_value(self) -> Iterator[tuple[str, Examples]]:
        for part in self._whole_units():
            column = _period(part.groups[str(self.per)])
            starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
            for start, stop in zip(starts, np.r_[starts[1:], len(part)], strict=True):
                yield str(column[start]), part[start:stop]


def _period(column: np.ndarray) -> np.ndarray:
    """Return times as their day; other values as they are.

    >>> _period(np.array(["2024-05-01T10:00", "2024-05-02 11:30"]))
    array(['2024-05-01', '2024-05-02'], dtype='<U10')
    """
    if column.dtype.kind == "M":
        return column.astype("datetime64[D]")
    if column.dtype.kind in "OU" and len(column):
        text = column.astype(str)
        if all(_is_time(value) for value in text[[0, -1]]):
            return text.astype("<U10")
    return column


def _is_time(text: str) -> bool:
    try:
        np.datetime64(text.replace(" ", "T")[:19])
    except ValueError:
        return False
    return len(text) > 10 and text[4:5] == "-" and text[7:8] == "-"


def unit_column(part: Examples, wanted: str | None) -> str | None:
    """Return the column of dependent rows; "auto" is sentence or image, if there is one."""
    if wanted != "auto":
        if wanted is not None and wanted not in part.groups:
            known = ", ".join(part.groups) or "none"
            raise InputError(f"There is no column '{wanted}' of dependent rows; columns: {known}.")
        return wanted
    return next((name for name in _UNITS if name in part.groups), None)


def _check_same(first: Examples, part: Examples) -> None:
    if isinstance(part, Claims) and part.kind != "top-label":
        raise InputError(f"watch takes claims of top labels, got {part.kind} ones.")
    if type(first) is not type(part):
        raise InputError("The parts of a stream must have one kind of scores, got several.")
    # Claims name the labels that occur.
    for what in ("classes", "names") if isinstance(part, Predictions) else ():
        if getattr(first, what) != getattr(part, what):
            raise InputError(
                f"The parts of a stream must have the same {what}, got {getattr(first, what)} and "
                f"{getattr(part, what)}."
            )
