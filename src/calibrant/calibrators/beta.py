"""Beta calibration: three numbers per class, with identity among its maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import namespace, sigmoid
from calibrant.calibrators.logistic import logistic_regression
from calibrant.calibrators.scalar import OneVsRest, ScalarMap
from calibrant.predictions import Kind

__all__ = ["Beta"]


class Beta(OneVsRest):
    """q_k = sigmoid(a log p_k − b log(1 − p_k) + c) with a, b ≥ 0; one against the rest.

    Kull, Silva Filho, Flach, "Beta calibration", AISTATS 2017: if the best a or b is negative
    it is set to 0 and the others are fitted again, so the map never decreases. ``ridge`` pulls
    (a, b, c) towards identity (1, 1, 0), weakly: it bounds them where a class is separable or
    missing; the paper has none.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.2, 0.8]] * 3 + [[0.7, 0.3]] * 3, [1, 1, 0, 1, 0, 0])
    >>> Beta().fit(p).transform(p).scores[[0, 3], 1].round(2)
    array([0.67, 0.33])
    """

    name = "beta"
    takes: ClassVar[Kind] = "logits"

    a_: np.ndarray
    b_: np.ndarray
    c_: np.ndarray

    def __init__(self, ridge: float = 1e-6) -> None:
        self.ridge = ridge

    def _scalar(self) -> ScalarMap:
        return _BetaMap(self.ridge)


class _BetaMap(ScalarMap):
    def __init__(self, ridge: float) -> None:
        self.ridge = ridge

    def fit(self, scores: np.ndarray, happened: np.ndarray) -> dict[str, np.ndarray]:
        features = np.stack([*_logarithms(scores), np.ones_like(scores)], axis=1)
        targets = happened.astype(np.float64)
        identity = np.array([1.0, 1.0, 0.0])
        kept = np.ones(3, bool)
        theta = logistic_regression(features, targets, identity, self.ridge)
        while (theta[:2] < 0).any():
            kept[theta[:2].argmin()] = False
            theta = np.zeros(3)
            theta[kept] = logistic_regression(
                features[:, kept], targets, identity[kept], self.ridge
            )
        return {name: theta[[i]] for i, name in enumerate(("a_", "b_", "c_"))}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        a, b, c = (values[name][:, 0] for name in ("a_", "b_", "c_"))
        log_p, minus_log_rest = _logarithms(scores)
        return sigmoid(a * log_p + b * minus_log_rest + c)


def _logarithms(log_odds: Array) -> tuple[Array, Array]:
    """Return log p and −log(1 − p) of log-odds s: −log(1 + e⁻ˢ) and log(1 + eˢ)."""
    xp = namespace(log_odds)
    tail = xp.log1p(xp.exp(-abs(log_odds)))
    return xp.clip(log_odds, None, 0.0) - tail, xp.clip(log_odds, 0.0, None) + tail
