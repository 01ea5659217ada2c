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
from calibrant.predictions import IGNORED, Predictions
from calibrant.validation import RowError

__all__ = ["assemble"]


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
    numbers: dict[str, int] = {}
    for text in dict.fromkeys(column.tolist()):
        number = _number(_decoded(text), names)
        if number is None:
            row = int((column == text).argmax())
            raise RowError(f"{_not_a_label(_decoded(text), names, name)} at {{where}}.", row)
        numbers[text] = number
    return np.fromiter((numbers[text] for text in column.tolist()), np.int64, len(column))


def _decoded(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _number(text: str, names: Sequence[str] | None) -> int | None:
    """A name comes first; a number is one only where no name could be meant by it."""
    if names is not None and text in names:
        return list(names).index(text) if list(names).count(text) == 1 else None
    digits = text.strip().removeprefix("-").removesuffix(".0")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(float(text)) if text.strip().endswith(".0") else int(text)
    if number != IGNORED and any(known.isdecimal() for known in names or ()):
        return None
    return number


def _not_a_label(text: str, names: Sequence[str] | None, column: str) -> str:
    if not text.strip():
        return f"No label in column '{column}' (−100 marks rows to ignore)"
    if names is None:
        return (
            f"The labels in column '{column}' are text ('{text}') and the label names are not "
            "known; give them (--labels FILE, or Columns(label_names=…)), first seen"
        )
    if text in names:
        return f"Two classes are called '{text}', the label in column '{column}'; use class numbers"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"Label '{text}' in column '{column}' is not one of the label names ({shown})"
