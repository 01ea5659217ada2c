"""Classwise sums of many classes with bootstrap blocks, in memory of about blocks · K numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.bins import Bins
from calibrant.metrics.state import CalibrationState
from calibrant.predictions import Predictions, softmax

__all__ = ["MOST_ENTRIES", "ClassSums"]

_CHUNK = 1 << 18  # Scores per chunk: the float64 intermediates stay at a few megabytes.
_PENDING = 1 << 20  # Entries that wait to be summed.
MOST_ENTRIES = 1 << 24  # Beyond this, 256 MB, there is no interval.
_NUMBERS = 1 << 22  # Resampled gaps held at once.


class ClassSums:
    """The (K, B) tables of a state, and the gap of each block, class and bin for the bootstrap.

    A gap is Σ (1[y = k] − p_k) over the examples of a block whose p_k lies in the bin, all that
    the classwise ECE needs. A row sums to 1, so fewer than B of its K probabilities lie above the
    first bin: gaps of the first bin are a (blocks, K) table, those above it a list of entries.
    Adding n rows takes time in n · K for any number of blocks.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> sums = ClassSums(2, Bins(2), blocks=2)
    >>> sums.add(p, np.array([0, 1]))
    >>> sums.total().class_correct
    array([[1, 1],
           [0, 0]])
    """

    def __init__(
        self,
        classes: int,
        bins: Bins,
        blocks: int,
        *,
        weighted: bool = False,
        most_entries: int = MOST_ENTRIES,
    ) -> None:
        self.classes, self.bins, self.blocks = classes, bins, blocks
        self.most_entries = most_entries
        self.n: np.ndarray = np.zeros(blocks, np.float64 if weighted else np.int64)
        self.weighted = weighted
        self._whole = True  # False: too many entries for an interval
        empty = CalibrationState.empty(classes, bins, weighted=weighted)
        tables = empty.class_count, empty.class_confidence, empty.class_correct
        self._tables: tuple[np.ndarray, ...] = tables
        self._first = np.zeros((blocks, classes))
        self._place: np.ndarray = np.empty(0, np.int64)
        self._gap: np.ndarray = np.empty(0)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, p: Predictions, block: np.ndarray) -> None:
        """Add predictions; ``block`` is the block of each row."""
        self.n += np.bincount(block, p.weights, minlength=self.blocks)
        if len(p) >= self.bins.count and (block == block[0]).all():
            self._add_block(accumulate(p, self.bins), int(block[0]))
            return
        order = np.argsort(block, kind="stable")  # Rows of one block side by side are summed fast.
        step = max(1, _CHUNK // self.classes)
        for start in range(0, len(p), step):
            rows = order[start : start + step]
            part = p[rows].numpy()
            self._add_rows(part, block[rows])

    def merge(self, other: ClassSums) -> None:
        """Add the sums of other rows, over the same blocks."""
        other._settle()
        self.n = self.n + other.n
        self._tables = tuple(a + b for a, b in zip(self._tables, other._tables, strict=True))
        self._first = self._first + other._first
        self._whole = self._whole and other._whole
        self._pending.append((other._place, other._gap))
        self._waiting += len(other._place)
        self._settle()

    def total(self) -> CalibrationState:
        """Return the state of all blocks, with n, the labels and the tables of classes alone."""
        count, confidence, correct = self._tables
        return replace(
            CalibrationState.empty(self.classes, self.bins, weighted=self.weighted),
            n=np.asarray(self.n.sum()),
            label_count=correct.sum(axis=1),
            class_count=count,
            class_confidence=confidence,
            class_correct=correct,
        )

    def replicated_ece(
        self, weights: np.ndarray, advance: Callable[[int], None] | None = None
    ) -> np.ndarray | None:
        """Return the classwise ECE per row of (R, blocks) weights: Σ_kb abs(Σ_g w_g gap_gkb).

        Return None if there are too many entries. ``advance`` is called every few classes.
        """
        self._settle()
        if not self._whole:
            return None
        weights, total = weights.astype(np.float64), np.zeros(len(weights))
        step = max(1, _NUMBERS // len(weights))
        for start in range(0, self.classes, step):
            gaps = self._first[:, start : start + step]
            total += np.abs(weights @ gaps).sum(axis=1)
            if advance is not None:
                advance(gaps.shape[1])
        for gaps in self._gaps_above(step):
            total += np.abs(weights @ gaps).sum(axis=1)
        return np.asarray(total / (weights @ self.n * self.classes))

    def _add_block(self, state: CalibrationState, block: int) -> None:
        """Add the state of rows of one block, such as the pixels of an image."""
        added = state.class_count, state.class_confidence, state.class_correct
        for table, part in zip(self._tables, added, strict=True):
            table += part
        gaps = state.class_correct - state.class_confidence
        self._first[block] += gaps[:, 0]
        cell = np.flatnonzero(state.class_count)
        cell = cell[cell % self.bins.count > 0]
        self._note(np.full(len(cell), block), cell, gaps.reshape(-1)[cell])

    def _add_rows(self, p: Predictions, block: np.ndarray) -> None:
        """Add rows that are sorted by their block."""
        labels, w = p.labels, p.weights
        scores = p.scores
        probabilities = softmax(scores.astype(np.float64)) if p.kind == "logits" else scores
        above = self._above_first(probabilities)
        wide = probabilities.astype(np.float64, copy=False)
        wide = wide if w is None else wide * w[:, None]
        first = np.where(above, 0.0, wide)
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        self._first[block[starts]] -= np.add.reduceat(first, starts, axis=0)
        count, confidence, correct = self._tables
        count[:, 0] += len(labels) - above.sum(axis=0) if w is None else w @ ~above
        confidence[:, 0] += first.sum(axis=0)

        row, column = np.nonzero(above)
        cell = column * self.bins.count + self.bins.index(probabilities[row, column])
        np.add.at(count.reshape(-1), cell, _ones(w, row))
        np.add.at(confidence.reshape(-1), cell, wide[row, column])
        self._note(block[row], cell, -wide[row, column])

        of_label = self.bins.index(probabilities[np.arange(len(labels)), labels])
        np.add.at(correct, (labels, of_label), _ones(w, slice(None)))
        low = of_label == 0
        np.add.at(self._first, (block[low], labels[low]), _ones(w, low))
        cell = labels[~low] * self.bins.count + of_label[~low]
        self._note(block[~low], cell, np.ones(len(cell)) * _ones(w, ~low))

    def _above_first(self, probabilities: np.ndarray) -> np.ndarray:
        """Return which probabilities are not in the first bin; equal to ``bins.index(…) > 0``."""
        edge = self.bins.edges(probabilities.dtype)[1]
        if self.bins.count == 1:
            return np.zeros(probabilities.shape, bool)
        right = self.bins.closed == "right"
        return np.asarray(probabilities > edge if right else probabilities >= edge)

    def _note(self, block: np.ndarray, cell: np.ndarray, gap: np.ndarray) -> None:
        if not self._whole or not len(cell):
            return
        # Cell first, so that sorted places have the blocks of one cell side by side.
        self._pending.append((cell * self.blocks + block, gap))
        self._waiting += len(cell)
        if self._waiting > max(_PENDING, len(self._place)):
            self._settle()

    def _settle(self) -> None:
        """Sum the waiting entries; entries of one place become one."""
        places = np.concatenate([self._place, *(place for place, _ in self._pending)])
        gaps = np.concatenate([self._gap, *(gap for _, gap in self._pending)])
        self._place, where = np.unique(places, return_inverse=True)
        self._gap = np.bincount(where.reshape(-1), gaps, minlength=len(self._place))
        self._pending, self._waiting = [], 0
        if not self._whole or len(self._place) > self.most_entries:
            self._whole, self._place, self._gap = False, self._place[:0], self._gap[:0]

    def _gaps_above(self, step: int) -> Iterator[np.ndarray]:
        """Yield the gaps above the first bin as (blocks, cells) tables of up to ``step`` cells."""
        cells, column = np.unique(self._place // self.blocks, return_inverse=True)
        block, column = self._place % self.blocks, column.reshape(-1)
        cuts = np.searchsorted(column, np.arange(0, len(cells) + step, step))
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            width = min(step, len(cells) - number * step)
            gaps, part = np.zeros((self.blocks, width)), slice(start, stop)
            gaps[block[part], column[part] - number * step] = self._gap[part]
            yield gaps


def _ones(weights: np.ndarray | None, rows: np.ndarray | slice) -> Any:
    """Return what these rows count: 1 each, or their sample weights."""
    return 1 if weights is None else weights[rows]
