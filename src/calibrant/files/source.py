"""What every file format gives: its columns, and its rows in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np

__all__ = ["Block", "Shape", "Source"]

# Shape of one row's value: () a scalar, (K,) a list of K numbers, (None,) a list of unknown
# length; None is something else (a struct, a list of text) that cannot be a score or a group.
Shape: TypeAlias = tuple[int | None, ...] | None


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

    path: Path
    columns: Mapping[str, Shape]
    label_names: tuple[str, ...] | None
    rows: int | None  # Where the file says it without being read.

    def blocks(self, rows: int, names: Sequence[str]) -> Iterator[Block]:
        """The columns ``names`` of at most ``rows`` rows at a time."""
        ...
