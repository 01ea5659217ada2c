"""Files that hold whole arrays (npz, safetensors), read row by row along their first axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from calibrant.errors import InputError
from calibrant.files.source import Block, Layout, Shape

__all__ = ["ArraySource", "Opener", "Reader"]


class Reader(Protocol):
    """One array that is being read."""

    def take(self, rows: int) -> np.ndarray:
        """The next ``rows`` rows."""
        ...


Opener: TypeAlias = Callable[[Sequence[str]], AbstractContextManager[Mapping[str, Reader]]]


@dataclass(frozen=True)
class ArraySource:
    """Arrays by name: their shapes, and how to open some of them for reading."""

    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    names: tuple[str, ...] | None
    open: Opener

    @property
    def columns(self) -> Mapping[str, Shape]:
        """The shape of one row of each array; single numbers are no columns."""
        return {name: shape[1:] for name, shape in self.shapes.items() if shape}

    def length(self, column: str) -> int | None:
        """The length of the first axis."""
        return self.shapes[column][0]

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002 - one for all
        """The names that the file holds beside the arrays."""
        return self.names

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """Slices along the first axis."""
        lengths = {name: self.shapes[name][0] for name in layout.names}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise InputError(f"{self.path}: arrays of different length: {told}.")
        total = lengths[layout.label]
        self._check_rows(layout)
        with self.open(layout.names) as readers:
            for start in range(0, total, rows):
                stop = min(start + rows, total)
                columns = {name: reader.take(stop - start) for name, reader in readers.items()}
                yield Block(columns, range(start, stop))

    def _check_rows(self, layout: Layout) -> None:
        """Rows of nothing cost no byte: a header may claim any number of them."""
        for name in (*layout.scores, layout.label):
            if 0 in self.shapes[name][1:]:
                told = self.shapes[name]
                raise InputError(
                    f"{self.path}: the rows of '{name}' are empty; its shape is {told}."
                )
