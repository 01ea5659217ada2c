"""What maps are fitted on and judged by: scores in float64, and the validation NLL in chunks."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import log_probabilities, log_softmax, softmax
from calibrant.predictions import Kind, Predictions

__all__ = ["fitting_logits", "mean_nll", "scores_as", "zero_label_count"]

_CHUNK = 1 << 17


def mean_nll(scores: np.ndarray, kind: Kind, labels: np.ndarray) -> float:
    """Mean of −log p_y; from probabilities with p_y floored at 1.2e-38, so that it is finite.

    >>> mean_nll(np.array([[0.5, 0.5]]), "probabilities", np.array([0]))
    0.6931471805599453
    """
    size = max(1, _CHUNK // scores.shape[1])
    total = 0.0
    for start in range(0, len(labels), size):
        part, y = scores[start : start + size], labels[start : start + size]
        if kind == "logits":
            chosen = log_softmax(part.astype(np.float64))[np.arange(len(y)), y]
        else:
            chosen = log_probabilities(part[np.arange(len(y)), y].astype(np.float64))
        total -= float(chosen.sum())
    return total / len(labels)


def zero_label_count(predictions: Predictions) -> int:
    """How many examples give their own label probability 0."""
    if predictions.kind == "logits":
        return 0
    chosen = predictions.scores[np.arange(len(predictions)), predictions.labels]
    return int((chosen <= 0).sum())


def fitting_logits(predictions: Predictions) -> Array:
    """The scores as finite logits: log max(p, 1.2e-38) where probabilities were given."""
    if predictions.kind == "logits":
        return predictions.scores
    return log_probabilities(predictions.scores.astype(np.float64))


def scores_as(kind: Kind, predictions: Predictions) -> Array:
    """The scores in float64 as ``kind``, by the same operations as when a map is applied."""
    scores = predictions.scores.astype(np.float64)
    if kind == predictions.kind:
        return scores
    return log_probabilities(scores) if kind == "logits" else softmax(scores)
