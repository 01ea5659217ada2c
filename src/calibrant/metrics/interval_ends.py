"""The ends of a bootstrap interval, from an estimate and its replicates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.distributions import student_quantile
from calibrant.metrics.adaptive import adaptive_ece
from calibrant.metrics.binned import classwise_ece, debiased_ece, ece, mce, overconfidence_error
from calibrant.metrics.kolmogorov_smirnov import ks_error
from calibrant.metrics.match_counts import f1
from calibrant.metrics.overlap import class_iou, mean_iou
from calibrant.metrics.scores import accuracy, brier, error, mean_confidence, nll
from calibrant.metrics.selective import (
    augrc,
    aurc,
    auroc,
    coverage_at_risk,
    e_aurc,
    risk_at_coverage,
)
from calibrant.metrics.smooth import smooth_ece

__all__ = ["OF_CLASSES", "OF_CONFIDENCES", "IntervalMethod", "interval_of"]

IntervalMethod: TypeAlias = Literal["auto", "percentile", "basic"]

# Sums of absolute values: noise only adds to them, in a sample as in its replicates. The maximum,
# MCE, is left out: measured, no interval is good for it (docs/decisions).
_BIASED_UPWARDS = (
    adaptive_ece,
    classwise_ece,
    ece,
    ks_error,
    overconfidence_error,
    smooth_ece,
)
_SHARES = (
    *_BIASED_UPWARDS,
    accuracy,
    augrc,
    aurc,
    auroc,
    class_iou,
    coverage_at_risk,
    debiased_ece,
    e_aurc,
    error,
    f1,
    mce,
    mean_confidence,
    mean_iou,
    risk_at_coverage,
)
_NOT_NEGATIVE = (brier, nll)
# What is computed from every confidence, and what from the tables of classes; all else is not.
OF_CONFIDENCES = (
    adaptive_ece,
    augrc,
    aurc,
    auroc,
    coverage_at_risk,
    e_aurc,
    ks_error,
    risk_at_coverage,
    smooth_ece,
)
OF_CLASSES = (classwise_ece, class_iou, mean_iou)


def interval_of(
    metric: Callable[..., Any],
    values: np.ndarray,
    estimate: Any,
    *,
    level: float = 0.95,
    method: IntervalMethod = "auto",
    groups: float = math.inf,
) -> tuple[Any, Any]:
    """The interval of a metric from its estimate and replicates, where these are known.

    ``groups`` is the effective number of groups that were drawn (:func:`effective_groups`).
    """
    tail = (1 - level) / 2
    low, high = _quantiles(values, tail, 1 - tail)
    if method == "basic":
        low, high = np.maximum(2 * estimate - high, 0), 2 * estimate - low
    elif method == "auto":
        wider = _wider(groups, level)
        bounds = _of_error(values, estimate, wider, level) if _biased(metric) else None
        low, high = bounds or _widened(values, low, high, wider)
        low, high = _in_range(metric, low, high)
    if method != "percentile":
        low, high = np.fmin(low, estimate), np.fmax(high, estimate)
    return (float(low), float(high)) if np.ndim(low) == 0 else (low, high)


@functools.cache
def _wider(groups: float, level: float) -> float:
    """t √(G / (G − 1)) / z: how much wider an interval is for so few groups."""
    if math.isinf(groups):
        return 1.0
    freedom = max(1.0, groups - 1)
    t, z = student_quantile(freedom, level), NormalDist().inv_cdf((1 + level) / 2)
    return t * math.sqrt((freedom + 1) / freedom) / z


def _quantiles(values: np.ndarray, *shares: float) -> np.ndarray:
    """Quantiles of values that may be infinite, between which nothing is interpolated."""
    if not np.isinf(values).any():
        return np.asarray(np.nanquantile(values, shares, axis=0))
    ordered, last = np.sort(values, axis=0), (~np.isnan(values)).sum(axis=0) - 1
    places = [np.rint(share * last).astype(np.int64)[None] for share in shares]
    return np.concatenate([np.take_along_axis(ordered, place, axis=0) for place in places])


def _widened(values: np.ndarray, low: Any, high: Any, wider: float) -> tuple[Any, Any]:
    (middle,) = _quantiles(values, 0.5)
    with np.errstate(invalid="ignore"):
        ends = [middle + wider * (end - middle) for end in (low, high)]
    # An infinite end, or one on the other side of an infinite median, stays where it is.
    low, high = (np.where(np.isnan(w), end, w) for w, end in zip(ends, (low, high), strict=True))
    return low, high


def _of_error(values: np.ndarray, estimate: Any, wider: float, level: float) -> tuple[Any, Any]:
    """The ends for a metric that noise can only raise."""
    t = wider * NormalDist().inv_cdf((1 + level) / 2)
    spread, squares = np.nanstd(values, axis=0), np.square(values)
    middle, high = np.nanquantile(squares, [0.5, (1 + level) / 2], axis=0)
    squared = 2 * np.square(estimate) - (middle + wider * (high - middle))
    straight = 2 * estimate - np.nanmean(values, axis=0) - t * spread
    low = np.minimum(np.sqrt(np.maximum(squared, 0)), np.maximum(straight, 0))
    return low, estimate + t * spread


def _in_range(metric: Callable[..., Any], low: Any, high: Any) -> tuple[Any, Any]:
    """The interval without what the metric cannot be."""
    if _plain(metric) not in _NOT_NEGATIVE + _SHARES:
        return low, high
    top = 1.0 if _plain(metric) in _SHARES else math.inf
    return np.maximum(low, 0.0), np.minimum(high, top)


def _biased(metric: Callable[..., Any]) -> bool:
    return _plain(metric) in _BIASED_UPWARDS


def _plain(metric: Callable[..., Any]) -> Callable[..., Any]:
    return metric.func if isinstance(metric, functools.partial) else metric
