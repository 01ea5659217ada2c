"""Accuracy, proper scores, overlap of regions, and APCR: functions of a state or of predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calibrant.arguments import takes_arrays
from calibrant.errors import InputError
from calibrant.metrics.binned import Source, TopSource, mean, state_of, top_bins_of
from calibrant.metrics.metric import metric_function

__all__ = [
    "accuracy",
    "apcr",
    "brier",
    "class_iou",
    "error_rate",
    "mean_confidence",
    "mean_iou",
    "nll",
]


@metric_function
def accuracy(source: TopSource) -> Any:
    """Share of examples whose largest score is at the label; the first of equal maxima counts.

    >>> from calibrant import Predictions
    >>> accuracy(Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 0]))
    0.5
    """
    state = top_bins_of(source)
    return mean(state.correct, state.n)


@metric_function
def error_rate(source: TopSource) -> Any:
    """1 − accuracy.

    >>> from calibrant import Predictions
    >>> error_rate(Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 1]))
    0.5
    """
    return 1 - accuracy(source)


@metric_function
def mean_confidence(source: TopSource) -> Any:
    """Mean of the top-label confidence; above the accuracy, the model is overconfident.

    >>> from calibrant import Predictions
    >>> round(mean_confidence(Predictions.from_probabilities([[0.9, 0.1], [0.2, 0.8]], [0, 0])), 2)
    0.85
    """
    state = top_bins_of(source)
    return mean(state.top_confidence.sum(axis=-1), state.n)


@metric_function
def nll(source: Source) -> Any:
    """Negative log-likelihood: mean of −log p_y, in nats; infinite where some p_y is 0.

    >>> from calibrant import Predictions
    >>> round(nll(Predictions.from_probabilities([[0.5, 0.5]], [1])), 4)
    0.6931
    """
    state = state_of(source)
    return mean(state.nll, state.n)


@metric_function
def brier(source: Source) -> Any:
    """Brier score: mean of Σ_k (p_k − 1[y = k])², from 0 to 2 (Brier 1950, the original form).

    >>> from calibrant import Predictions
    >>> brier(Predictions.from_probabilities([[0.5, 0.5]], [1]))
    0.5
    """
    state = state_of(source)
    return mean(np.maximum(state.brier, 0), state.n)


@takes_arrays
def class_iou(source: Source) -> np.ndarray:
    """Return the intersection over union of each class, TP / (TP + FP + FN), NaN if unseen.

    The Jaccard index (Everingham et al. 2010 for pixels). Counted over all examples together, not
    image by image; ignored pixels count nowhere.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 1])
    >>> class_iou(p)
    array([0.5, 0.5])
    """
    state = state_of(source)
    if not state.label_count.shape[-1]:
        raise InputError("class_iou needs the sums of each class: predictions of all classes.")
    both = state.predicted_correct
    either = state.label_count + state.predicted_count - both
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(both / either)


@metric_function
def mean_iou(source: Source) -> Any:
    """Mean of :func:`class_iou` over the classes that were labelled or predicted (mIoU).

    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]], [0, 1, 1])
    >>> mean_iou(p)  # The third class was never met.
    0.5
    """
    found = class_iou(source)
    met = ~np.isnan(found)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.asarray(np.where(met, found, 0.0).sum(axis=-1) / met.sum(axis=-1))
    return float(mean) if mean.ndim == 0 else mean


def apcr(f1: Any, ece: Any) -> Any:
    """F1² / ECE: high where a tagger is good and its confidences are honest.

    From the paper on noise gradient accumulation for named entity recognition. At ECE = 0 it is
    infinite, with a warning. A model that finds nothing has nothing to trade: at F1 = 0 it is
    undefined, NaN. The arguments are numbers or arrays (bootstrap replicates).

    >>> round(apcr(0.939, 0.012), 1)
    73.5
    >>> apcr(0.0, 0.1)
    nan
    """
    f1, ece = _number(f1), _number(ece)
    if f1.ndim and ece.ndim and f1.shape != ece.shape:
        raise InputError(
            f"apcr takes two numbers or arrays of one shape, got {f1.shape} and {ece.shape}."
        )
    f1, ece = np.broadcast_arrays(f1, ece)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(f1 == 0, np.nan, f1**2 / ece)
    if np.isinf(value).any():
        warnings.warn("APCR is infinite: the ECE is 0.", RuntimeWarning, stacklevel=2)
    return float(value) if value.ndim == 0 else value


def _number(value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"apcr takes two numbers or arrays, F1 and ECE, got a {type(value).__name__}: "
            "apcr(entity_f1(predictions), ece(predictions))."
        ) from None
