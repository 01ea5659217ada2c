"""What every file format gives: its columns, and its rows in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np

from calibrant.predictions import Kind

__all__ = ["Block", "Layout", "Shape", "Source"]

# Shape of one row's value: () a scalar, (K,) a list of K numbers, (None,) a list of unknown
# length; None is something else (a struct, a list of text) that cannot be a score or a group.
Shape: TypeAlias = tuple[int | None, ...] | None


@dataclass(frozen=True)
class Layout:
    """What the columns of one file are: scores (one list column, or one per class) and the rest."""

    kind: Kind
    scores: tuple[str, ...]
    label: str
    groups: tuple[str, ...]
    label_names: tuple[str, ...] | None
    per_class: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All columns to read."""
        return tuple(dict.fromkeys((*self.scores, self.label, *self.groups)))


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of one file, column by column: shape (n,) for scalars, (n, K) for lists.

    ``numbers`` says where each row stands in the file, counted in ``unit``: rows from 0, or lines
    of a text file from 1.
    """

    columns: Mapping[str, np.ndarray]
    numbers: Sequence[int]
    unit: Literal["row", "line"] = "row"


class Source(Protocol):
    """One file, opened far enough to know its columns."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def columns(self) -> Mapping[str, Shape]:
        """The shape of one row of each column, in the order of the file."""
        ...

    def length(self, column: str) -> int | None:
        """The number of rows of ``column``, where the file tells it without being read."""
        ...

    def label_names(self, scores: str) -> tuple[str, ...] | None:
        """The names of the classes that the column ``scores`` is about, if the file has them."""
        ...

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """The columns of ``layout``, at most ``rows`` rows at a time."""
        ...
