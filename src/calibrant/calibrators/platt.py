"""Platt scaling: a sigmoid of the log-odds, per class against the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import sigmoid
from calibrant.calibrators.logistic import logistic_regression
from calibrant.calibrators.scalar import OneVsRest, ScalarMap
from calibrant.predictions import Kind

__all__ = ["Platt"]


class Platt(OneVsRest):
    """q_k = sigmoid(a_k s_k + b_k) with s_k = log p_k / (1 − p_k); one against the rest.

    Platt, "Probabilistic Outputs for Support Vector Machines", 1999, with his targets
    (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2), which keep a and b finite; ``smooth_targets=False``
    fits the labels as they are. Two numbers per class; good for binary models with little data.

    >>> from calibrant import Predictions
    >>> logits, labels = [[0.0, 2.0]] * 10 + [[0.0, -3.0]] * 10, [1] * 7 + [0] * 12 + [1]
    >>> platt = Platt().fit(Predictions.from_logits(logits, labels))
    >>> platt.slope_.round(3), platt.intercept_.round(3)
    (array([[0.465]]), array([[-0.305]]))
    """

    name = "platt"
    takes: ClassVar[Kind] = "logits"

    slope_: np.ndarray
    intercept_: np.ndarray

    def __init__(self, smooth_targets: bool = True) -> None:
        self.smooth_targets = smooth_targets

    def _scalar(self) -> ScalarMap:
        return _Sigmoid(self.smooth_targets)


class _Sigmoid(ScalarMap):
    def __init__(self, smooth_targets: bool) -> None:
        self.smooth_targets = smooth_targets

    def fit(self, scores: np.ndarray, happened: np.ndarray) -> dict[str, np.ndarray]:
        targets = happened.astype(np.float64)
        if self.smooth_targets:
            positive, negative = happened.sum(), (~happened).sum()
            targets = np.where(happened, (positive + 1) / (positive + 2), 1 / (negative + 2))
        # Scores have any scale, so the slope is fitted in units of their spread.
        scale = max(float(np.sqrt((scores**2).mean())), 1e-300)
        features = np.stack([scores / scale, np.ones_like(scores)], axis=1)
        slope, intercept = logistic_regression(features, targets, np.array([scale, 0.0]), 1e-12)
        return {"slope_": np.array([slope / scale]), "intercept_": np.array([intercept])}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return sigmoid(scores * values["slope_"][:, 0] + values["intercept_"][:, 0])
