"""Accuracy and the proper scores: functions of a state, or of predictions for convenience."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.metrics.binned import Source, TopSource, mean, state_of, top_bins_of

__all__ = ["accuracy", "brier", "error", "mean_confidence", "nll"]


def accuracy(source: TopSource) -> Any:
    """Share of examples whose largest score is at the label; the first of equal maxima counts.

    >>> from calibrant import Predictions
    >>> accuracy(Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 0]))
    0.5
    """
    state = top_bins_of(source)
    return mean(state.correct, state.n)


def error(source: TopSource) -> Any:
    """1 − accuracy."""
    return 1 - accuracy(source)


def mean_confidence(source: TopSource) -> Any:
    """Mean of the top-label confidence; above the accuracy, the model is overconfident."""
    state = top_bins_of(source)
    return mean(state.top_confidence.sum(axis=-1), state.n)


def nll(source: Source) -> Any:
    """Negative log-likelihood: mean of −log p_y, in nats; infinite where some p_y is 0.

    >>> from calibrant import Predictions
    >>> round(nll(Predictions.from_probabilities([[0.5, 0.5]], [1])), 4)
    0.6931
    """
    state = state_of(source)
    return mean(state.nll, state.n)


def brier(source: Source) -> Any:
    """Brier score: mean of Σ_k (p_k − 1[y = k])², from 0 to 2 (Brier 1950, the original form).

    >>> from calibrant import Predictions
    >>> brier(Predictions.from_probabilities([[0.5, 0.5]], [1]))
    0.5
    """
    state = state_of(source)
    return mean(np.maximum(state.brier, 0), state.n)
