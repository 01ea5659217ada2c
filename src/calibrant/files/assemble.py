"""From a block of columns to predictions: stack the scores, number the labels, say which row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.conversion import leading_group
from calibrant.errors import InputError
from calibrant.files.source import Block, Layout
from calibrant.inputs import shortened
from calibrant.predictions import IGNORED, Predictions
from calibrant.validation import RowError

__all__ = ["assemble", "is_whole_number"]

_MOST_DIGITS = 18  # Of a number of 64 bits.


def assemble(
    path: Path, block: Block, layout: Layout, names: Sequence[str] | None, first: int
) -> Predictions:
    """The predictions of one block; an error names the file and its row or line.

    ``first`` counts the rows before this block, also of other files: where a row holds a whole
    sentence (scores of shape (n, words, K)), it numbers the sentences; and where it holds an image,
    the images. Those may have their classes second, (n, K, height, width), as convolutions do.
    """
    make = Predictions.from_logits if layout.kind == "logits" else Predictions.from_probabilities
    try:
        scores = _classes_last(_scores(block, layout), block.columns[layout.label].shape)
        labels = _labels(block.columns[layout.label], names, layout.label)
        groups = {name: block.columns[name] for name in layout.groups}
        if leading := leading_group(scores.ndim):
            groups.setdefault(leading, np.arange(first, first + len(scores)))
        return make(scores, labels, label_names=names, groups=groups)
    except RowError as error:
        inner = prod(block.columns[layout.label].shape[1:])
        where = f"{block.unit} {block.numbers[error.row // inner]}"
        where += f", position {error.row % inner}" if inner > 1 else ""
        raise InputError(f"{path}: {error.at(where)}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _scores(block: Block, layout: Layout) -> np.ndarray:
    if not layout.per_class:
        return block.columns[layout.scores[0]]
    columns = [block.columns[name] for name in layout.scores]
    for name, column in zip(layout.scores, columns, strict=True):
        if column.dtype.kind not in "fiu" or column.ndim != 1:
            raise InputError(f"column '{name}' must hold one number per row.")
    return np.stack(columns, axis=1)


def _classes_last(scores: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Scores (n, K, height, width) of labels (n, height, width) as (n, height, width, K).

    Where both readings fit, because K, height and width are the same, the classes are last.
    """
    second = scores.ndim == 4 and scores.shape[:-1] != labels
    if second and (scores.shape[0], *scores.shape[2:]) == labels:
        return np.moveaxis(scores, 1, -1)
    return scores


def _labels(column: np.ndarray, names: Sequence[str] | None, name: str) -> np.ndarray:
    """Class numbers as they are; text as the number of the class of that name."""
    if column.dtype.kind not in "OUS":
        return column
    if column.ndim > 1:
        return _labels(column.reshape(-1), names, name).reshape(column.shape)
    known = _Names(names)
    numbers: dict[Any, int] = {}
    for text in dict.fromkeys(column.tolist()):
        number = known.number(_decoded(text))
        if number is None:
            row = int((column == text).argmax())
            raise RowError(f"{known.complaint(_decoded(text), name)} at {{where}}.", row)
        numbers[text] = number
    return np.fromiter((numbers[text] for text in column.tolist()), np.int64, len(column))


def _decoded(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


class _Names:
    """The label names, looked up in a table: there may be as many labels as names."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.given = names
        self.places: dict[str, int | None] = {}
        for place, name in enumerate(names or ()):
            self.places[name] = None if name in self.places else place  # None: two are called so.
        self.some_are_numbers = any(name.isdecimal() for name in self.places)

    def number(self, text: str) -> int | None:
        """A name comes first; a number is one only where no name could be meant by it."""
        if text in self.places:
            return self.places[text]
        if not is_whole_number(text):
            return None
        number = int(text.strip().removesuffix(".0"))
        return None if number != IGNORED and self.some_are_numbers else number

    def complaint(self, text: str, column: str) -> str:
        """What is wrong with a label that has no number."""
        shown = shortened(text)
        if not text.strip():
            return f"No label in column '{column}' (−100 marks rows to ignore)"
        if self.given is None and text.strip().lstrip("-").isdecimal():
            return f"Label {shown} in column '{column}' is no class number"
        if self.given is None:
            return (
                f"The labels in column '{column}' are text ('{shown}') and the label names are not "
                "known; give them (--labels FILE, or Columns(label_names=…)), first seen"
            )
        if text in self.places:
            return (
                f"Two classes are called '{shown}', the label in column '{column}'; use class "
                "numbers"
            )
        some = ", ".join(map(shortened, self.given[:8])) + (", …" if len(self.given) > 8 else "")
        return f"Label '{shown}' in column '{column}' is not one of the label names ({some})"


def is_whole_number(text: str) -> bool:
    """Whether a text is a whole number that an array can hold: 7, -100, 3.0.

    >>> is_whole_number("3.0"), is_whole_number("3.5"), is_whole_number("9" * 5000)
    (True, False, False)
    """
    digits = text.strip().removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
