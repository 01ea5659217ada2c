"""Files that hold whole arrays (npz, safetensors), read row by row along their first axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from calibrant.errors import InputError
from calibrant.files.format import Block, Layout, NewScores, Shape

__all__ = ["ArraySource", "Reader", "read_pieces"]

_PIECE = 1 << 20  # Bytes that are copied at once.


class Reader(Protocol):
    """One array that is being read."""

    def take(self, rows: int) -> np.ndarray:
        """Return the next ``rows`` rows."""
        ...


class ArraySource(ABC):
    """Arrays by name, with their shapes, and the label names stored with them."""

    def __init__(
        self, path: Path, shapes: Mapping[str, tuple[int, ...]], names: tuple[str, ...] | None
    ) -> None:
        self.path, self.shapes, self.names = path, shapes, names

    @abstractmethod
    def open(self, names: Sequence[str]) -> AbstractContextManager[Mapping[str, Reader]]:
        """Open some of the arrays for reading."""

    @abstractmethod
    def copy(self, target: Path, new: NewScores, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the file again, the scores as ``arrays``, the bytes of all others as they are."""

    @property
    def columns(self) -> Mapping[str, Shape]:
        """The shape of one row of each array; single numbers are no columns."""
        return {name: shape[1:] for name, shape in self.shapes.items() if shape}

    def length(self, column: str) -> int | None:
        """Return the length of the first axis."""
        return self.shapes[column][0]

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002 - one for all
        """Return the names that the file holds in addition to the arrays."""
        return self.names

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """Yield slices along the first axis."""
        lengths = {name: self.shapes[name][0] for name in layout.names}
        if len(set(lengths.values())) > 1:
            described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise InputError(f"{self.path}: arrays of different length: {described}.")
        total = lengths[layout.label]
        self._check_rows(layout)
        with self.open(layout.names) as readers:
            for start in range(0, total, rows):
                stop = min(start + rows, total)
                columns = {name: reader.take(stop - start) for name, reader in readers.items()}
                yield Block(columns, range(start, stop))

    def _check_rows(self, layout: Layout) -> None:
        """Refuse rows of nothing: they cost no byte, so a header may claim any number of them."""
        for name in (*layout.scores, layout.label):
            shape = self.shapes[name]
            if 0 in shape[1:]:
                raise InputError(
                    f"{self.path}: the rows of '{name}' are empty; its shape is {shape}."
                )

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write the file again; the new scores are held in memory."""
        whole = np.concatenate(list(new.parts(self)))
        columns = whole.T if new.layout.per_class else [whole]
        pairs = zip(new.names, columns, strict=True)
        self.copy(target, new, {name: np.ascontiguousarray(column) for name, column in pairs})


def read_pieces(file: IO[bytes], size: int | None = None) -> Iterator[bytes]:
    """Yield the next ``size`` bytes of a file, or all that follow, piece by piece."""
    left = _PIECE if size is None else size
    while left > 0:
        piece = file.read(min(_PIECE, left))
        if not piece and size is not None:
            raise EOFError("an array ends early")
        if not piece:
            return
        yield piece
        left -= 0 if size is None else len(piece)
