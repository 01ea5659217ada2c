"""The bins of the top-label confidence alone: all that ECE, MCE and accuracy need."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from calibrant.metrics.accumulate import accumulate_by, edge_type, kernel_edges
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.compiled import kernels_for, plain, spread
from calibrant.predictions import Predictions
from calibrant.validation import RANGE_TOLERANCE, SUM_TOLERANCE

__all__ = ["TopBins", "top_bins"]


class TopBins(NamedTuple):
    """Some fields of a :class:`~calibrant.metrics.CalibrationState`, under the same names."""

    top_count: np.ndarray
    top_confidence: np.ndarray
    top_correct: np.ndarray

    @property
    def n(self) -> np.ndarray:
        """The number of examples."""
        return np.asarray(self.top_count.sum(axis=-1))

    @property
    def correct(self) -> np.ndarray:
        """The number of examples whose argmax is the label."""
        return np.asarray(self.top_correct.sum(axis=-1))


def top_bins(
    predictions: Predictions, bins: int | Bins = 15, *, closed: Closed = "right"
) -> TopBins:
    """What :func:`~calibrant.metrics.accumulate` finds for these fields, in less time.

    Only the compiled kernels have a shorter way; without them it is a part of the whole state.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> top_bins(p, bins=5).top_correct
    array([0, 0, 0, 0, 1])
    """
    bins = bins if isinstance(bins, Bins) else Bins(bins, closed)
    if (module := kernels_for(predictions)) is not None:
        return _compiled_top_bins(predictions, bins, module)
    state = accumulate_by(None, predictions, bins, classwise=False)
    return TopBins(state.top_count, state.top_confidence, state.top_correct)


def _compiled_top_bins(p: Predictions, bins: Bins, kernels: ModuleType) -> TopBins:
    cut, alone = kernel_edges(bins, edge_type(p)), _no_tie_above(p)

    def add(start: int, stop: int) -> TopBins:
        part, rows = _empty(bins), slice(start, stop)
        scores, labels = plain(p.scores[rows]), plain(p.labels[rows], np.int64)
        kernels.add_tops(scores, labels, cut, p.kind == "logits", alone, *part)
        return part

    total = _empty(bins)
    for part in spread(add, len(p), p.classes):
        for sums, added in zip(total, part, strict=True):
            sums += added
    return total


def _empty(bins: Bins) -> TopBins:
    return TopBins(
        np.zeros(bins.count, np.int64), np.zeros(bins.count), np.zeros(bins.count, np.int64)
    )


def _no_tie_above(p: Predictions) -> float:
    """A confidence that two classes of one row cannot both exceed.

    One half, and for probabilities half of what validation lets a sum miss 1, and rounding go
    below 0.
    """
    slack = 0.0 if p.kind == "logits" else SUM_TOLERANCE + p.classes * RANGE_TOLERANCE
    return 0.5 + slack / 2 + 1e-3
