"""Calibration errors from bins: pure functions of a state, or of predictions for convenience.

Every function takes a :class:`~calibrant.metrics.CalibrationState` or
:class:`~calibrant.Predictions`, and those of the top label alone a
:class:`~calibrant.metrics.TopBins` or :class:`~calibrant.metrics.Confidences`; ``bins`` and
``closed`` apply to predictions and confidences. A state with leading axes gives an array, one
number per entry. Without examples the result is NaN.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from calibrant.arguments import check_kind
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.confidences import Confidences, bin_confidences
from calibrant.metrics.metric import metric_function
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.top_bins import TopBins, top_bins
from calibrant.predictions import Predictions

__all__ = [
    "Source",
    "TopSource",
    "classwise_ece",
    "debiased_rms_ece",
    "ece",
    "mce",
    "mean",
    "overconfidence_error",
    "state_of",
    "top_bins_of",
]

Source: TypeAlias = CalibrationState | Predictions | Claims
TopSource: TypeAlias = Source | TopBins | Confidences


@metric_function
def ece(source: TopSource, bins: int | Bins = 15, *, closed: Closed = "right") -> Any:
    """Expected calibration error: Σ_b (n_b / n) · abs(acc_b − conf_b), equal-width bins.

    Naeini et al. 2015; Guo et al. 2017. Biased upwards for small n: see :func:`debiased_rms_ece`.

    >>> round(ece(Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])), 3)
    0.4
    """
    state = top_bins_of(source, bins, closed)
    gaps = np.abs(state.top_correct - state.top_confidence)
    return mean(gaps.sum(axis=-1), state.n)


@metric_function
def mce(source: TopSource, bins: int | Bins = 15, *, closed: Closed = "right") -> Any:
    """Maximum calibration error: max over non-empty bins of abs(acc_b − conf_b).

    >>> mce(Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0]))
    0.7
    """
    state = top_bins_of(source, bins, closed)
    gaps = np.abs(state.top_correct - state.top_confidence)
    gaps = np.where(state.top_count > 0, _ratio(gaps, state.top_count), 0.0).max(axis=-1)
    return _number(np.where(state.n > 0, gaps, np.nan))


@metric_function
def overconfidence_error(
    source: TopSource, bins: int | Bins = 15, *, closed: Closed = "right"
) -> Any:
    """Overconfidence error: Σ_b (n_b / n) · conf_b · max(conf_b − acc_b, 0).

    Thulasidasan et al. 2019. Zero where the model is never more confident than right.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> round(overconfidence_error(p), 3)
    0.245
    """
    state = top_bins_of(source, bins, closed)
    confidence = np.nan_to_num(_ratio(state.top_confidence, state.top_count))
    excess = np.maximum(state.top_confidence - state.top_correct, 0)
    return mean((confidence * excess).sum(axis=-1), state.n)


@metric_function
def classwise_ece(source: Source, bins: int | Bins = 15, *, closed: Closed = "right") -> Any:
    """Mean over the K columns of the one-against-rest ECE of p_k; absent classes count.

    Kull et al. 2019. K is the number of columns, not the largest label. Of multi-label claims with
    unknown labels, the columns count by their known ones.

    >>> round(classwise_ece(Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])), 3)
    0.4
    """
    state = state_of(source, bins, closed, classwise=True)
    if not state.classwise:
        raise InputError(
            "classwise_ece needs the probability of every class: predictions of all classes or "
            "multi-label claims, or their state accumulated with classwise=True."
        )
    gaps = np.abs(state.class_correct - state.class_confidence).sum(axis=(-2, -1))
    # Of K classes each has every example; of K labels, each claim is about one.
    return mean(gaps, state.class_count.sum(axis=(-2, -1)))


@metric_function
def debiased_rms_ece(source: TopSource, bins: int | Bins = 15, *, closed: Closed = "right") -> Any:
    """Debiased root-mean-square calibration error (Kumar, Liang & Ma 2019).

    sqrt(max(0, Σ_b (n_b / n) · [(acc_b − conf_b)² − acc_b (1 − acc_b) / (n_b − 1)])): the squared
    error of each bin minus the part that sampling noise alone explains. Bins with a single example
    cannot estimate their own noise and are left out of the sum, as its authors do. It takes no
    sample weights, which do not say how many examples were seen.

    >>> debiased_rms_ece(Predictions.from_probabilities([[0.9, 0.1]] * 10, [0] * 9 + [1]))
    0.0
    """
    state = top_bins_of(source, bins, closed)
    if state.weighted:
        raise InputError(
            "debiased_rms_ece needs the number of examples in each bin, which sample weights do "
            "not say; ece takes them."
        )
    count = state.top_count
    accuracy, confidence = _ratio(state.top_correct, count), _ratio(state.top_confidence, count)
    noise = accuracy * (1 - accuracy) / np.maximum(count - 1, 1e-300)
    squared = np.where(count > 1, (accuracy - confidence) ** 2 - noise, 0.0)
    total = mean((count * squared).sum(axis=-1), state.n)
    return _number(np.sqrt(np.maximum(total, 0)))


def state_of(
    source: Source, bins: int | Bins = 15, closed: Closed = "right", *, classwise: bool = False
) -> CalibrationState:
    """Return the state of ``source``; a state is returned unchanged."""
    if isinstance(source, CalibrationState):
        _check_bins(source.bins, bins, closed)
        return source
    if not isinstance(source, (Predictions, Claims)):
        raise InputError(
            "This metric needs the probabilities of all classes: a CalibrationState or "
            f"Predictions, got {type(source).__name__}."
        )
    return accumulate(source, bins, closed=closed, classwise=classwise)


def top_bins_of(
    source: TopSource, bins: int | Bins = 15, closed: Closed = "right"
) -> CalibrationState | TopBins:
    """Return the part of the state of ``source`` that concerns top-label confidences."""
    if isinstance(source, (CalibrationState, TopBins)):
        _check_bins(source.bins, bins, closed)
        return source
    if isinstance(source, Confidences):
        return bin_confidences(source, bins, closed=closed)
    check_kind("This metric", source, Predictions, Claims, CalibrationState, TopBins, Confidences)
    return top_bins(source, bins, closed=closed)


def _check_bins(known: Bins, requested: int | Bins, closed: Closed) -> None:
    """Require that bins other than the default ones are those of the state."""
    requested = requested if isinstance(requested, Bins) else Bins(requested, closed)
    if requested not in (known, Bins()):
        raise InputError(
            f"This metric got {requested.count} bins, closed {requested.closed}, for a state with "
            f"{known.count}, closed {known.closed}; make the state with the bins that you need."
        )


def mean(total: np.ndarray, count: np.ndarray) -> Any:
    """Return total / count: a float for one state, an array for many, NaN without examples."""
    return _number(_ratio(total, count))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(numerator / denominator)


def _number(value: np.ndarray) -> Any:
    return float(value) if np.ndim(value) == 0 else value
