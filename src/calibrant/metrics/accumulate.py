"""From predictions to a state: one pass over the scores in chunks that stay in cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.state import CalibrationState
from calibrant.predictions import Predictions

__all__ = ["accumulate"]

_CHUNK = 1 << 16  # Scores per chunk: half a megabyte in float64, small enough for L2.


def accumulate(
    predictions: Predictions,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    classwise: bool = True,
    block: np.ndarray | None = None,
    blocks: int = 0,
) -> CalibrationState:
    """The state of ``predictions``.

    With ``block``, an array that puts each example into one of ``blocks`` blocks, the sums have a
    leading axis of that length: one state per block, for :mod:`calibrant.metrics.bootstrap`.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> accumulate(p, bins=5).top_count
    array([0, 0, 0, 1, 1])
    """
    bins = bins if isinstance(bins, Bins) else Bins(bins, closed)
    lead = 1 if block is None else blocks
    state = CalibrationState.empty(predictions.classes, bins, classwise=classwise, blocks=(lead,))
    rows = max(1, _CHUNK // predictions.classes)
    for start in range(0, len(predictions), rows):
        part = predictions[start : start + rows].numpy()
        where = np.zeros(len(part), np.int64) if block is None else block[start : start + rows]
        _add_rows(state, part, where)
    state = replace(state, ignored=predictions.ignored)
    return state.total() if block is None else state


def _add_rows(state: CalibrationState, part: Predictions, block: np.ndarray) -> None:
    """Add the rows of one chunk to the sums of their blocks, in place."""
    rows, labels = np.arange(len(part)), part.labels
    probabilities, nll = _probabilities_and_nll(part)
    predicted = part.scores.argmax(axis=1)
    confidence = probabilities[rows, predicted]
    correct = predicted == labels
    wide = probabilities.astype(np.float64, copy=False)
    # Σ_k (p_k − 1[y = k])² = Σ_k p_k² − 2 p_y + 1
    brier = np.einsum("nk,nk->n", wide, wide) - 2 * wide[rows, labels] + 1

    _add(state.n, block)
    _add(state.correct, block, correct)
    _add(state.nll, block, nll)
    _add(state.brier, block, brier)
    cell = block * state.bins.count + state.bins.index(confidence)
    _add(state.top_count, cell)
    _add(state.top_confidence, cell, confidence)
    _add(state.top_correct, cell, correct)
    _add(state.label_count, block * state.classes + labels)
    cell = block * state.classes + predicted
    _add(state.predicted_count, cell)
    _add(state.predicted_confidence, cell, confidence)
    _add(state.predicted_correct, cell, correct)
    if state.classwise:
        row = block[:, None] * state.classes + np.arange(state.classes)
        cells = row * state.bins.count + state.bins.index(probabilities)
        _add(state.class_count, cells.ravel())
        _add(state.class_confidence, cells.ravel(), probabilities.ravel())
        _add(state.class_correct, cells[rows, labels])


def _probabilities_and_nll(part: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """p of shape (n, K) and −log p_y; from logits in float64, log-sum-exp so that it is finite."""
    rows = np.arange(len(part))
    if part.kind == "probabilities":
        with np.errstate(divide="ignore"):  # p_y = 0: the log-likelihood is −∞, and says so.
            return part.scores, -np.log(part.scores[rows, part.labels].astype(np.float64))
    logits = part.scores.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[rows, part.labels]
    np.exp(logits, out=logits)
    sums = logits.sum(axis=1, keepdims=True)
    logits /= sums
    return logits, np.log(sums[:, 0]) - chosen


def _add(total: np.ndarray, cell: np.ndarray, weights: np.ndarray | None = None) -> None:
    """total.ravel()[cell] += weights, in place, with repeated cells added up."""
    added = np.bincount(cell, weights, minlength=total.size)
    total += added.reshape(total.shape).astype(total.dtype, copy=False)
