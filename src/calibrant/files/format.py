"""The contract of a file format: it opens a file as a source of columns, and writes predictions.

A new format is a module with a :class:`Source` and a :class:`Format`, and its row in
:data:`calibrant.files.formats.FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from calibrant.claims import Claims
from calibrant.encoding import Dictionary, encode
from calibrant.errors import InputError
from calibrant.labels import is_number, is_whole_number, lone_positive
from calibrant.predictions import Kind, Predictions

__all__ = [
    "SIGNAL",
    "WEIGHT",
    "Block",
    "FileKind",
    "Format",
    "Layout",
    "NewScores",
    "Shape",
    "Source",
    "joined",
    "other_columns",
]

SIGNAL = "signal."  # Columns signal.NAME hold the signal NAME.
WEIGHT = "weight"  # The column of sample weights, in files that calibrant writes.

# What the scores of a file are.
FileKind: TypeAlias = Kind | Literal["top-label", "multi-label"]
# Shape of one row's value: () a scalar, (K,) a list of K numbers, (None,) a list of unknown
# length; None is something else (a struct, a list of text) that cannot be a score or a group.
Shape: TypeAlias = tuple[int | None, ...] | None
_Beside = TypeVar("_Beside")


@dataclass(frozen=True)
class Layout:
    """What the columns of one file are: scores (one list column, or one per class) and the rest."""

    kind: FileKind
    scores: tuple[str, ...]
    label: str
    groups: tuple[str, ...]
    label_names: tuple[str, ...] | None
    per_class: bool
    signals: tuple[str, ...] = ()
    predicted: str | None = None  # Of top labels; it is among ``groups`` too, as is ``correct``.
    correct: str | None = None
    labels: tuple[str, ...] = ()  # Of many labels: one column each; they are among ``groups`` too.
    of_logits: bool = False  # Whether the scores of many labels are logits.
    weights: str | None = None  # The column of sample weights.
    named: bool = False  # Whether columns name the classes: labels that are numbers are names too.

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns to read."""
        own = (*self.scores, self.label, *self.groups, *self.signals)
        return tuple(dict.fromkeys((*own, self.weights) if self.weights else own))

    @property
    def coded(self) -> tuple[str, ...]:
        """Return the names of the columns that may be read as a dictionary: those of top labels."""
        if self.kind != "top-label":
            return ()
        own = (self.predicted, self.label)
        return tuple(name for name in own if name and name not in self.numbers)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Return the names of the columns that must hold numbers."""
        return (*self.scores, *self.signals, *((self.weights,) if self.weights else ()))


def other_columns(part: Predictions | Claims) -> dict[str, np.ndarray]:
    """Return the columns other than scores and labels, under the names that files give them.

    Claims have no others, so these are all of their columns.
    """
    signals = {f"{SIGNAL}{name}": part.signals[name] for name in part.signals}
    own = claim_columns(part) if isinstance(part, Claims) else {}
    weights = {} if part.weights is None else {WEIGHT: part.weights}
    return {**own, **part.groups, **signals, **weights}


def joined(parts: Iterable[Predictions | Claims]) -> Predictions | Claims:
    """Return all parts of a stream as one."""
    whole: list[Any] = [part.numpy() for part in parts]
    return type(whole[0]).concatenate(whole) if whole else Predictions.concatenate(whole)


def claim_columns(claims: Claims) -> dict[str, np.ndarray]:
    """Return the columns of top labels: label, predicted label and confidence, or correctness."""
    if claims.kind == "multi-label":
        raise InputError(
            "Multi-label claims are not written as they are; write the table of probabilities and "
            "labels that they came from, or use calibrant apply."
        )
    texts = {"true_label": claims.text("truth"), "pred_label": claims.text("about")}
    columns = {name: column for name, column in texts.items() if column is not None}
    columns["confidence"] = claims.confidence
    return columns if len(columns) == 3 else {**columns, "correct": claims.correct}


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of one file, column by column: shape (n,) for scalars, (n, K) for lists.

    ``numbers`` gives the place of each row in the file, counted in ``unit``: rows from 0, or lines
    of a text file from 1.
    """

    columns: Mapping[str, np.ndarray]
    numbers: Sequence[int]
    unit: Literal["row", "line"] = "row"
    # Columns of ``Layout.coded`` that the format need not turn into one text per row.
    coded: Mapping[str, Dictionary] = field(default_factory=dict)

    @property
    def all_columns(self) -> Mapping[str, Any]:
        """The columns, also the coded ones."""
        return {**self.columns, **self.coded}

    def labels(self, layout: Layout) -> np.ndarray:
        """Return the labels, as text if columns name the classes and some name is a number.

        With columns ``probabilities:1`` to ``probabilities:5``, a label of 1 is the first class in
        every format, as it is in csv, where all is text. So is 2 if the positive class is called 2.
        """
        column, names = self.columns[layout.label], layout.label_names or ()
        numeric = column.dtype.kind in "iuf" and any(map(is_whole_number, names))
        if (positive := lone_positive(names)) is not None:
            numeric = column.dtype.kind in "biuf" and is_number(positive)
        if not (layout.named and numeric):
            return column
        found = encode(column)
        texts = np.array([*found.names, ""], object)[found.codes]
        return np.asarray(texts.reshape(column.shape))


@dataclass(frozen=True, eq=False)
class NewScores:
    """The scores that replace those of a file: ``of(block, rows before it)``, by blocks.

    The columns ``layout.scores`` get the names ``names``. Any other column of such a name goes.
    """

    path: Path
    layout: Layout
    names: tuple[str, ...]
    rows: int  # How many to map at a time, at most.
    of: Callable[[Block, int], np.ndarray]
    progress: Callable[[int], None]

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Return the new name of each column of scores."""
        return dict(zip(self.layout.scores, self.names, strict=True))

    def keeps(self, column: str) -> bool:
        """Return whether a column of the file, scores included, has a place in the new one."""
        return column in self.renamed or column not in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.names)

    def parts(self, source: Source) -> Iterator[np.ndarray]:
        """Yield the new scores of a file, block by block."""
        blocks = ((block, None) for block in source.blocks(self.rows, self.layout))
        return (scores for scores, _ in self.mapped(blocks))

    def mapped(
        self, blocks: Iterable[tuple[Block, _Beside]]
    ) -> Iterator[tuple[np.ndarray, _Beside]]:
        """Yield the new scores of each block, with the format's other data."""
        first = 0
        for block, beside in blocks:
            yield self.of(block, first), beside
            first += len(block.numbers)
            self.progress(len(block.numbers))
        if not first:
            raise InputError(f"{self.path}: no rows.")


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
        """Return the number of rows of ``column``, or None if only reading the file shows it."""
        ...

    def label_names(self, scores: str) -> tuple[str, ...] | None:
        """Return the names of the classes of the column ``scores``, if the file has them."""
        ...

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """Yield the columns of ``layout``, at most ``rows`` rows at a time."""
        ...

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write the file again with other scores; all other columns and all rows stay."""
        ...


@dataclass(frozen=True)
class Format:
    """One row of the table of formats.

    ``write`` writes a stream of predictions to a path. A folder of files of a format with
    ``shards`` is read as one table. ``by_name`` says that a file tells classes apart by their
    names, so that no two may be the same.
    """

    suffixes: tuple[str, ...]
    open: Callable[[Path], Source]
    write: Callable[[Iterator[Any], Path], None]
    shards: bool = False
    by_name: bool = False
