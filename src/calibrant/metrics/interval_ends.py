"""The ends of a bootstrap interval, from an estimate and its replicates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.distributions import student_quantile
from calibrant.metrics.metric import Metric
from calibrant.metrics.selective import RiskCoverage
from calibrant.metrics.table import metric_of

__all__ = ["IntervalMethod", "interval_of"]

IntervalMethod: TypeAlias = Literal["auto", "percentile", "basic"]


def interval_of(
    metric: Callable[..., Any],
    values: np.ndarray,
    estimate: Any,
    *,
    level: float = 0.95,
    method: IntervalMethod = "auto",
    groups: float = math.inf,
    units: float | None = None,
    alike: bool = False,
    rarer: float = math.inf,
    least: float | None = None,
    curve: RiskCoverage | None = None,
    skewness: float = 0.0,
) -> tuple[Any, Any]:
    """Return the interval of a metric from its estimate and replicates, if these are known.

    ``groups`` is the effective number of groups that were drawn (:func:`effective_groups`), and
    ``units`` the number of independent examples, if it is known; otherwise that of groups.
    ``alike``: every prediction is right, or every one wrong, so replicates do not show how often
    it is otherwise.
    ``rarer`` is the number of right or of wrong ones, whichever are fewer (:func:`rarer_kind`).
    ``least`` is the lower end of a calibration error where it is known by other means, and
    ``curve`` the risk–coverage curve, for a coverage at a risk. ``skewness`` is that of a mean of
    losses or of confidences (:func:`~calibrant.metrics.bootstrap.skewness_of_mean`).
    """
    tail, row = (1 - level) / 2, metric_of(metric)
    spread = "plain" if row is None else row.spread
    if spread == "ranked":  # The AUROC is a mean over the rarer kind, a risk a sum over mistakes.
        groups = min(groups, rarer if row is not None and row.better > 0 else rarer + 1)
    low, high = _quantiles(values, tail, 1 - tail)
    if method == "basic":
        low, high = np.maximum(2 * estimate - high, 0), 2 * estimate - low
    elif method == "auto":
        if spread == "biased upwards":
            low, high = _of_error(values, estimate, level, groups)
            if alike:  # Each answer that would be another moves the error by at most its share.
                share = 1 - tail ** (1 / (units or groups))
                low, high = np.fmin(low, estimate - share), np.fmax(high, estimate + share)
            low = low if least is None else least
        else:
            low, high = _widened(values, low, high, _wider(groups, level))
            low, high = _skewed(spread, values, estimate, low, high, _reach(groups, level))
            if spread == "positive":
                high = np.fmax(high, _hall(values, estimate, _reach(groups, level), skewness))
            if spread == "proportion":  # Confidences crowd at 1, scores of rare classes at 0.
                ends = [
                    _hall(values, estimate, _reach(groups, level), s) for s in (-skewness, skewness)
                ]
                low, high = np.fmin(low, 2 * estimate - ends[0]), np.fmax(high, ends[1])
        if spread == "counted":
            drawn = (units or groups) * _keywords(metric).get("coverage", 1.0)
            low, high = _of_certainty(estimate, low, high, tail ** (1 / drawn))
        if spread == "ranked":
            low, high = _of_certainty(estimate, low, high, tail ** (1 / groups))
        if spread == "kept" and curve is not None:
            low = np.minimum(low, _surely_kept(metric, curve, units or groups, tail))
        low, high = _in_range(row, low, high)
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


def _reach(groups: float, level: float) -> float:
    """Return the distance of an end from the estimate, in standard deviations of the replicates."""
    return _wider(groups, level) * NormalDist().inv_cdf((1 + level) / 2)


def _quantiles(values: np.ndarray, *shares: float) -> np.ndarray:
    """Return quantiles of values that may be infinite, without interpolation between those."""
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


def _skewed(
    spread: str, values: np.ndarray, estimate: Any, low: Any, high: Any, reach: float
) -> tuple[Any, Any]:
    """Return the ends, or Student's on the logit or log scale where they are wider."""
    with np.errstate(all="ignore"):  # Infinite and constant replicates give NaN, which fmin leaves.
        step, mean = reach * np.nanstd(values, axis=0), np.nanmean(values, axis=0)
        if spread == "positive":
            # The first terms of θ exp(s / mean), which with two groups would be millions.
            high = np.fmax(high, estimate + step * (1 + step / (2 * mean)) * estimate / mean)
        elif spread in ("proportion", "counted", "ranked", "kept"):
            against = np.divide(1 - estimate, estimate)
            factor = np.exp(step / (mean * (1 - mean)))
            low = np.fmin(low, 1 / (1 + against * factor))
            high = np.fmax(high, 1 / (1 + against / factor))
    return low, high


def _hall(values: np.ndarray, estimate: Any, reach: float, skewness: float) -> Any:
    """Return the upper end of a mean with a heavy upper tail.

    With t = (mean − θ) / s and the skewness g of the mean, t + g t² / 3 + g² t³ / 27 + g / 6 is
    nearly normal (Hall 1992). A sample that lacks the largest losses has a small mean, and a small
    s as well, so Student's end is too low.
    """
    if not skewness > 0:
        return estimate
    root = np.cbrt(1 - skewness * (reach + skewness / 6))
    with np.errstate(invalid="ignore"):  # Of infinite replicates nothing is known.
        return estimate + 3 * (1 - root) / skewness * np.nanstd(values, axis=0)


def _of_certainty(estimate: Any, low: Any, high: Any, share: float) -> tuple[Any, Any]:
    """Return the ends if all groups are right or all wrong, so that no replicate differs.

    Clopper & Pearson 1934: with a lower share of right groups, all would be right too rarely.
    """
    return np.where(estimate == 1, share, low), np.where(estimate == 0, 1 - share, high)


def _keywords(metric: Callable[..., Any]) -> dict[str, Any]:
    """Return what a partial function has set already."""
    return getattr(metric, "keywords", {})


def _surely_kept(
    metric: Callable[..., Any], curve: RiskCoverage, drawn: float, tail: float
) -> float:
    """Return the largest coverage whose risk is below that of the metric by more than chance.

    The largest one of a sample is often one that its noise took below the risk, and so it is in
    replicates. P[Binomial(n, r) ≤ k] is at most Φ(−√(2 n KL((k + 1) / n ‖ r))) where that share is
    below r (Zubkov & Serov 2013), and (1 − r)^n without a mistake.
    """
    risk = min(max(float(_keywords(metric).get("risk", 0.0)), 1e-12), 1 - 1e-12)
    n = curve.coverage * drawn
    share = np.minimum(curve.risk + 1 / n, risk)
    divergence = share * np.log(share / risk) + (1 - share) * np.log((1 - share) / (1 - risk))
    sure = 2 * n * divergence >= NormalDist().inv_cdf(1 - tail) ** 2
    sure |= (curve.risk == 0) & (n >= math.log(tail) / math.log1p(-risk))
    return float(np.max(curve.coverage, initial=0.0, where=sure))


def _of_error(values: np.ndarray, estimate: Any, level: float, groups: float) -> tuple[Any, Any]:
    """Return the ends for a metric that noise can only raise."""
    step, mean = _reach(groups, level) * np.nanstd(values, axis=0), np.nanmean(values, axis=0)
    middle, high = np.nanquantile(values**2, [0.5, (1 + level) / 2], axis=0)
    squared = 2 * np.square(estimate) - (middle + _wider(groups, level) * (high - middle))
    straight = 2 * estimate - mean - step
    low = np.minimum(np.sqrt(np.maximum(squared, 0)), np.maximum(straight, 0))
    # s² / 4θ: as (√θ + s / 2√θ)², for the spread grows with the error; at most a quarter of s.
    return low, estimate + step * (1 + np.minimum(step, mean) / np.maximum(mean, 1e-300) / 4)


def _in_range(metric: Metric | None, low: Any, high: Any) -> tuple[Any, Any]:
    """Clip the interval to the range of the metric, if that is known."""
    if metric is None:
        return low, high
    return np.maximum(low, 0.0), np.minimum(high, metric.most)
