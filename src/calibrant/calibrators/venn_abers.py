"""Venn–Abers prediction: isotonic regression with an interval for its own uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import FLOOR, step
from calibrant.calibrators.isotonic import pool_adjacent_violators
from calibrant.calibrators.likelihood import as_kind
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve, TopLabel
from calibrant.calibrators.ties import by_score, tolerance
from calibrant.claims import Claims
from calibrant.predictions import Predictions

__all__ = ["TopLabelVennAbers", "VennAbers"]


class VennAbers(OneVsRest):
    """q_k = p₁ / (1 − p₀ + p₁); [p₀, p₁] is an interval for the probability. Against the rest.

    Vovk, Petej, Fedorova, "Large-scale probabilistic predictors with and without guarantees of
    validity", NeurIPS 2015 (the inductive form): for a new score s, p₀ and p₁ are the values at s
    of two isotonic regressions, of the validation examples with (s, 0) and with (s, 1) added. One
    of them is perfectly calibrated for any data; where they are far apart there is little
    data. Never exactly 0 or 1, and less eager than :class:`Isotonic`, which p₀ and p₁ enclose.
    With sample weights s has weight 1, and the statement about calibration does not hold.

    >>> p = Predictions.from_probabilities([0.1] * 9 + [0.9] * 9, [0] * 6 + [1] * 5 + [0] + [1] * 6)
    >>> venn_abers = VennAbers().fit(p)
    >>> low, high = venn_abers.interval(p)
    >>> low[[0, 9], 1], high[[0, 9], 1]
    (array([0.3, 0.8]), array([0.4, 0.9]))
    >>> venn_abers.transform(p).scores[[0, 9], 1].round(3)
    array([0.364, 0.818])
    """

    name = "venn-abers"

    low_edges_: np.ndarray
    low_: np.ndarray
    high_edges_: np.ndarray
    high_: np.ndarray

    def _scalar(self) -> ScalarCurve:
        return _VennAbersCurve()

    def interval(self, predictions: Predictions | Claims) -> tuple[np.ndarray, np.ndarray]:
        """Return p₀ and p₁ of each example and class, each of shape (n, K); of claims (n, 2)."""
        self._check_suits("interval", predictions)
        if isinstance(predictions, Claims):
            predictions = predictions.binary()
        scores = as_kind("probabilities", predictions.numpy(), FLOOR).scores.astype(np.float64)
        low, high = bounds(self._columns(scores), self.learned())
        if predictions.classes == 2:
            return np.hstack([1 - high, low]), np.hstack([1 - low, high])
        return low, high


class TopLabelVennAbers(TopLabel):
    """c' = p₁ / (1 − p₀ + p₁) for the confidence c: :class:`VennAbers` of "is it right?".

    One calibrator for all classes, so the interval is K times better informed.

    >>> p = Predictions.from_probabilities([0.9] * 8, [0, 1, 1, 1] * 2)
    >>> low, high = TopLabelVennAbers().fit(p).interval(p)
    >>> low[0].round(2), high[0].round(2)
    (np.float64(0.67), np.float64(0.78))
    """

    name = "venn-abers-top-label"

    low_edges_: np.ndarray
    low_: np.ndarray
    high_edges_: np.ndarray
    high_: np.ndarray

    def __init__(self, keep_prediction: bool = True) -> None:
        self.keep_prediction = keep_prediction

    def _scalar(self) -> ScalarCurve:
        return _VennAbersCurve()

    def interval(self, predictions: Predictions | Claims) -> tuple[np.ndarray, np.ndarray]:
        """Return p₀ and p₁ of each example's predicted class, or claim, each of shape (n,)."""
        self._check_suits("interval", predictions)
        if isinstance(predictions, Claims):
            top = predictions.scores[:, 1:]
        else:
            scores = as_kind("probabilities", predictions.numpy(), FLOOR).scores
            top = scores.astype(np.float64).max(axis=1, keepdims=True)
        low, high = bounds(top, self.learned())
        return low[:, 0], high[:, 0]


class _VennAbersCurve(ScalarCurve):
    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        low_end, _, high_end, count, hits = by_score(scores, happened, weights)
        high = upper_bounds(count, hits)
        low = 1 - upper_bounds(count[::-1], (count - hits)[::-1])[::-1]
        # p₁ of a score between two fitted ones is that of the next, p₀ that of the one before. The
        # bounds jump there, so not at the fitted scores: a new one may be rounded in another way.
        gaps = (low_end[1:] - high_end[:-1]) / 4
        below = np.minimum(tolerance(low_end), np.append(np.inf, gaps))
        above = np.minimum(tolerance(high_end), np.append(gaps, np.inf))
        low_edges, low = _steps(low_end - below, np.append(0.0, low))
        high_edges, high = _steps(high_end + above, np.append(high, 1.0))
        return {"low_edges_": low_edges, "low_": low, "high_edges_": high_edges, "high_": high}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        low, high = bounds(scores, values)
        return high / (1 - low + high)


def bounds(scores: Array, values: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return p₀ and p₁ of (n, C) scores, one column per calibrator."""
    low = step(values["low_edges_"], values["low_"], scores)
    return low, step(values["high_edges_"], values["high_"], scores)


def upper_bounds(count: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """Return p₁ at each distinct score: the isotonic regression there with one more event.

    With the cumulative sums W of ``count`` and S of ``hits``, an event added before group l + 1
    gives it u_l = min_{r>l} (S_r + 1 − S_l) / (W_r + 1 − W_l), if nothing before it is pooled in;
    and p₁ of group i is max_{l<i} u_l. The minimum is sought for all l at once (Dinkelbach 1967):
    for a ratio t, the best r is the end of the last block of the plain isotonic regression whose
    mean is at most t. Below that regression, g ≤ p₁, no search is needed.

    >>> upper_bounds(np.array([1, 1, 1, 1]), np.array([0, 1, 0, 1])).round(2)
    array([0.5 , 0.67, 0.67, 1.  ])
    """
    total, events = np.append(0, np.cumsum(count)), np.append(0, np.cumsum(hits))
    means, starts = pool_adjacent_violators(hits / count, count)
    ends = np.append(starts[1:], len(count))
    plain = np.repeat(means, ends - starts)
    ratio = np.ones(len(count))
    while True:
        right = ends[np.searchsorted(means, ratio, side="right") - 1]
        lower = (events[right] + 1 - events[:-1]) / (total[right] + 1 - total[:-1])
        lower = np.minimum(np.maximum(lower, plain), ratio)
        if np.array_equal(lower, ratio):
            return np.maximum.accumulate(ratio)
        ratio = lower


def _steps(edges: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Remove the edges at which nothing changes; one edge always stays."""
    changes = values[1:] != values[:-1]
    changes[-1] |= not changes.any()
    return edges[changes], values[np.append(True, changes)]
