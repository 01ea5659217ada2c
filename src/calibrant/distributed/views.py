"""The rows that a fit sees: scores of the kind that its calibrator takes, of some folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrators.faultless import untied
from calibrant.calibrators.likelihood import (
    as_kind,
    grid_digits,
    smallest_positive,
    without_masks,
    zero_label_count,
)
from calibrant.claims import Claims
from calibrant.distributed.passes import Answer, Chunk
from calibrant.labels import MISSING_TEXTS
from calibrant.metrics.blocks import assign_blocks, dependent_group, hash_values
from calibrant.predictions import Kind, Predictions

__all__ = ["NOT_ROUNDED", "Folded", "Survey", "View", "block_numbers", "rows_of"]

NOT_ROUNDED = 99  # More digits than any type has.


@dataclass(frozen=True)
class Folded:
    """The rows outside (or, ``inside``, in) one of some folds, which a hash of the group gives.

    Rows that depend on each other, such as the words of a sentence, are in one fold.
    """

    folds: int
    fold: int
    seed: int
    inside: bool = False

    def mask(self, chunk: Chunk) -> np.ndarray:
        """Return which rows these are."""
        key = ("fold", self.folds, self.seed)
        if key not in chunk.views:
            chunk.views[key] = fold_numbers(chunk, self.folds, self.seed)
        return np.asarray((chunk.views[key] == self.fold) == self.inside)


def fold_numbers(chunk: Chunk, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row: a hash of its group, or of its number."""
    group = dependent_group(chunk.rows)
    values = np.arange(chunk.number, chunk.number + len(chunk.rows))
    marks = hash_values(values if group is None else chunk.rows.groups[group])
    salt = hash_values(np.array([seed + 1]))
    return np.asarray(hash_values((marks ^ salt).view(np.int64)) % np.uint64(folds), np.int64)


def rows_of(chunk: Chunk, folded: Folded | None) -> Predictions:
    """Return the rows of a chunk that belong to the folds; claims as binary predictions."""
    key = ("rows", folded)
    if key not in chunk.views:
        found: Any = chunk.rows
        found = found.binary() if isinstance(found, Claims) else found
        found = without_masks(found)
        chunk.views[key] = found if folded is None else found[folded.mask(chunk)]
    rows: Predictions = chunk.views[key]
    return rows


@dataclass(frozen=True)
class View:
    """Scores of the kind that a calibrator takes; a probability of 0 counts as ``floor``."""

    takes: Kind
    floor: float
    folded: Folded | None = None

    def of(self, chunk: Chunk) -> Predictions:
        """Return the rows of a chunk as this view shows them."""
        if self not in chunk.views:
            chunk.views[self] = as_kind(self.takes, rows_of(chunk, self.folded), self.floor)
        rows: Predictions = chunk.views[self]
        return rows


@dataclass(frozen=True)
class Survey:
    """Asks what every fit must know first: sizes, zeros, digits, mistakes, and some rows.

    Of ``rows`` rows about ``wanted`` are returned, chosen by a hash of their numbers; all if there
    are fewer.
    """

    rows: int
    wanted: int
    folded: Folded | None = None

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = rows_of(chunk, self.folded)
        smallest, zeros, digits = np.inf, False, 0
        if p.kind == "probabilities" and len(p):
            smallest, zeros = smallest_positive(p.scores)
            digits = grid_digits(p.scores) or NOT_ROUNDED
        label = p.scores[np.arange(len(p)), p.labels]
        alone = untied(p.scores)
        return {
            "sum:n": np.array([len(p), chunk.rows.ignored, zero_label_count(p), int(zeros)]),
            "sum:copies": np.array([chunk.copies]),
            "sum:size": np.array([p.size]),
            "sum:wrong": np.array([int((label < p.scores.max(axis=1)).sum())]),
            "sum:decided": np.array([alone.sum(), _total(p.weights, alone)]),
            "sum:labels": np.bincount(p.labels, minlength=p.classes),
            "min:smallest": np.array([smallest]),
            "max:digits": np.array([digits]),
            "max:texts": _readings(chunk.rows),
            **self._sample(chunk, p),
        }

    def _sample(self, chunk: Chunk, p: Predictions) -> Answer:
        numbers = np.arange(chunk.number, chunk.number + len(chunk.rows))
        if self.folded is not None:
            numbers = numbers[self.folded.mask(chunk)]
        chosen: Any = slice(None)
        if self.rows > self.wanted:
            limit = np.uint64(2**64 * (self.wanted / self.rows))
            chosen = np.flatnonzero(hash_values(hash_values(numbers).view(np.int64)) < limit)
        weights = np.ones(len(p)) if p.weights is None else p.weights
        return {
            "join:scores": np.asarray(p.scores[chosen], np.float64),
            "join:labels": p.labels[chosen],
            "join:weights": weights[chosen],
        }


def _readings(rows: Predictions | Claims) -> np.ndarray:
    """Return which of the texts such as NA were read as no label, and which as a class."""
    if not isinstance(rows, Claims) or rows.kind != "top-label":
        return np.zeros((2, len(MISSING_TEXTS)), bool)
    read = (rows.missing_texts, rows.names)
    return np.array([[text in found for text in MISSING_TEXTS] for found in read])


def _total(weights: np.ndarray | None, rows: np.ndarray) -> float:
    return float(rows.sum() if weights is None else weights[rows].sum())


def block_numbers(chunk: Chunk, blocks: int) -> np.ndarray:
    """Return the bootstrap block of each row."""
    return assign_blocks(chunk.rows, "auto", blocks, start=chunk.number)
