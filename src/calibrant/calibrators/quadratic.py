"""Quadratic scaling: a parabola of the log-odds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import sigmoid
from calibrant.calibrators.logistic import logistic_regression, root_mean_square, sum_of
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve, TopLabel
from calibrant.errors import InputError
from calibrant.predictions import Kind

__all__ = ["Quadratic", "TopLabelQuadratic"]


class Quadratic(OneVsRest):
    """q_k = sigmoid(a_k + b_k s + c_k s²) with s = log p_k / (1 − p_k); one against the rest.

    For two classes the calibrator of Berta, Bach, Jordan, "Classifier calibration with
    ROC-regularized isotonic regression", 2024, and probmetrics: Platt scaling with a bend, for
    scores that are overconfident on one side only. λ_a a² + λ_c c² may be added to the mean loss,
    with λ_a = ``intercept`` and λ_c = ``curvature``. A Gaussian prior around identity, of weight
    ``ridge`` / n and in units of the scores' spread, bounds separable classes and fades as examples
    grow. A parabola turns somewhere: far outside the fitted scores it is not reliable.

    >>> from calibrant import Predictions
    >>> labels = [0] * 8 + [1, 0, 0, 1, 1, 0] + [1] * 8
    >>> p = Predictions.from_logits([-3.0] * 9 + [0.0] * 4 + [3.0] * 9, labels)
    >>> Quadratic().fit(p).transform(p).scores[[0, 9, 21], 1].round(2)
    array([0.11, 0.5 , 0.89])
    """

    name = "quadratic"
    takes: ClassVar[Kind] = "logits"

    coefficients_: np.ndarray

    def __init__(self, intercept: float = 0.0, curvature: float = 0.0, ridge: float = 0.1) -> None:
        self.intercept = intercept
        self.curvature = curvature
        self.ridge = ridge

    def _scalar(self) -> ScalarCurve:
        return _Parabola(self.intercept, self.curvature, self.ridge)


class TopLabelQuadratic(TopLabel):
    """c' = sigmoid(a + b s + c s²) with s the log-odds of the confidence; three numbers for all.

    Arguments as :class:`Quadratic`.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9] * 400, [0, 1, 1, 1] * 100)
    >>> TopLabelQuadratic().fit(p).transform(p).scores[0].round(3)
    array([0.25, 0.75])
    """

    name = "quadratic-top-label"
    takes: ClassVar[Kind] = "logits"

    coefficients_: np.ndarray

    def __init__(
        self,
        intercept: float = 0.0,
        curvature: float = 0.0,
        keep_prediction: bool = True,
        ridge: float = 0.1,
    ) -> None:
        self.intercept = intercept
        self.curvature = curvature
        self.ridge = ridge
        self.keep_prediction = keep_prediction

    def _scalar(self) -> ScalarCurve:
        return _Parabola(self.intercept, self.curvature, self.ridge)


class _Parabola(ScalarCurve):
    def __init__(self, intercept: float, curvature: float, ridge: float) -> None:
        if not (intercept >= 0 and curvature >= 0 and ridge > 0):
            raise InputError(
                "Quadratic scaling expects intercept ≥ 0, curvature ≥ 0 and ridge > 0, got "
                f"{intercept}, {curvature} and {ridge}."
            )
        self.intercept, self.curvature, self.ridge = intercept, curvature, ridge

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        # Scores have any scale, so the coefficients are fitted in units of their spread.
        scale = root_mean_square(scores, weights) or 1.0
        z = scores / scale
        features = np.stack([np.ones_like(z), z, z**2], axis=1)
        penalty = 2 * np.array([self.intercept, 0.0, self.curvature * scale**-4.0])
        ridge = penalty + self.ridge / sum_of(weights, np.ones(len(z), bool))
        identity = np.array([0.0, scale, 0.0])
        targets = happened.astype(np.float64)
        theta = logistic_regression(features, targets, identity, ridge, weights)
        return {"coefficients_": theta / np.array([1.0, scale, scale**2])}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        a, b, c = (values["coefficients_"][:, i] for i in range(3))
        return sigmoid(a + scores * (b + c * scores))
