"""Sums by the label that each claim is about, where the labels are not known in advance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.claims import Claims
from calibrant.metrics import CalibrationState

__all__ = ["LabelSums"]

_MOST_SUMS = 4_000_000  # Of blocks and labels together: 32 MB per table.


class LabelSums:
    """Counts, confidences and right claims per label and block; new labels add columns."""

    def __init__(self, blocks: int) -> None:
        self.blocks, self.names = blocks, dict[str, int]()
        self._tables = np.zeros((4, blocks, 0))
        self.whole = True  # Whether there were few enough labels to keep all sums.

    def add(self, claims: Claims, block: np.ndarray) -> None:
        """Add the claims of a chunk; the fourth table counts true labels."""
        if not self.whole or claims.about is None:
            return
        place = np.array([self.names.setdefault(n, len(self.names)) for n in claims.names], int)
        if len(self.names) * self.blocks > _MOST_SUMS:
            self.whole = False
            return
        wider = np.zeros((4, self.blocks, len(self.names) - self._tables.shape[2]))
        self._tables = np.concatenate([self._tables, wider], axis=2)
        weights = (None, claims.confidence, claims.correct)
        about = place[claims.about]
        for table, weight in zip(self._tables, weights, strict=False):
            self._sum(table, block, about, weight)
        if claims.truth is not None:
            self._sum(self._tables[3], block, place[claims.truth], None)

    def _sum(
        self, table: np.ndarray, block: np.ndarray, label: np.ndarray, weight: np.ndarray | None
    ) -> None:
        cell = block * len(self.names) + label
        table += np.bincount(cell, weight, minlength=table.size).reshape(table.shape)

    def into(self, state: CalibrationState) -> CalibrationState:
        """Return the state, which has blocks, with the sums of each label."""
        if not self.whole or not self.names:
            return state
        count, confidence, right, labelled = self._tables
        return replace(
            state,
            classes=len(self.names),
            predicted_count=count.astype(np.int64),
            predicted_confidence=confidence,
            predicted_correct=right.astype(np.int64),
            label_count=labelled.astype(np.int64),
        )
