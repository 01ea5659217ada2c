"""Structured scaling: temperature first, then small changes per class and between classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import log_softmax
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.checks import check_most_classes
from calibrant.calibrators.linear import Penalty, fit_linear, tempered_features
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["StructuredMatrix", "StructuredVector"]


class _Structured(Calibrator):
    takes_weights = True

    temperature_: float
    weights_: np.ndarray
    intercepts_: np.ndarray

    def _fit(self, predictions: Predictions) -> Fit:
        """Fit the temperature, and then the rest from there."""
        logits, labels, weights = predictions.scores, predictions.labels, predictions.weights
        penalty = self.checked_penalty(predictions.size, predictions.classes)
        best = best_inverse_temperature(logits, labels, weights=weights)
        beta = 1.0 if best.at.spread == 0 else best.beta
        fitted = fit_linear(tempered_features(logits, beta), predictions, penalty)
        learned: dict[str, Any] = {"weights_": fitted.weights, "intercepts_": fitted.intercepts}
        learned["temperature_"] = 1 / beta
        return Fit(learned, best.nll_at_one, fitted.nll, rounding=fitted.rounding)

    def checked_penalty(self, n: float, classes: int) -> Penalty:
        """Check the hyper-parameters and return the priors."""
        for name, value in self.get_params().items():
            if not value >= 0:
                raise InputError(f"{type(self).__name__} expects {name} ≥ 0, got {value}.")
        return self._penalty(n, classes)

    @abstractmethod
    def _penalty(self, n: float, classes: int) -> Penalty:
        """Return the priors for n examples, or for that sum of their sample weights."""

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        x, weights = log_softmax(scores / values["temperature_"]), values["weights_"]
        return (x * weights if weights.ndim == 1 else x @ weights.T) + values["intercepts_"]


class StructuredVector(_Structured):
    """p = softmax((I + diag v) x + b) with x = log softmax(l / T), T as in temperature scaling.

    Berta, Holzmüller, Jordan, Bach, "Structured matrix scaling for multi-class calibration",
    AISTATS 2026. T is fitted first and without a penalty; then v and b minimise the mean NLL plus
    r λ_b ‖b‖² + r λ_v ‖v‖² with r = K^ρ / n^τ, λ_b = ``intercept`` and λ_v = ``diagonal``. The
    penalty fades as examples per class grow: with few it is temperature scaling, with many vector
    scaling. It is convex; the search starts at v = b = 0, so it never ends worse than temperature.

    >>> p = Predictions.from_logits([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]] * 9, [1, 0, 0] * 9)
    >>> vector = StructuredVector().fit(p)
    >>> vector.fitted_on_["nll_after"] < vector.fitted_on_["nll_before"]
    True
    """

    name = "structured-vector"

    def __init__(
        self, intercept: float = 1.0, diagonal: float = 1.0, rho: float = 1.0, tau: float = 1.0
    ) -> None:
        self.intercept = intercept
        self.diagonal = diagonal
        self.rho = rho
        self.tau = tau

    def _penalty(self, n: float, classes: int) -> Penalty:
        r = classes**self.rho / n**self.tau
        ones = np.ones(classes)
        return Penalty(ones, 2 * r * self.diagonal * ones, 2 * r * self.intercept)


class StructuredMatrix(_Structured):
    """p = softmax((I + diag v + M) x + b), M without a diagonal; the rest as StructuredVector.

    Berta et al. 2026. M has the penalty λ_M (K (K − 1))^ρ / n^τ ‖M‖² with λ_M = ``off_diagonal``:
    K − 1 times that of v, so what classes say about each other counts when there are many examples
    for each pair. It leads the public comparisons in log-loss.

    K² + K numbers: more than ``most_classes`` classes are refused.

    >>> p = Predictions.from_logits([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]] * 9, [1, 0, 0] * 9)
    >>> matrix = StructuredMatrix().fit(p)
    >>> matrix.fitted_on_["nll_after"] < matrix.fitted_on_["nll_before"]
    True
    """

    name = "structured-matrix"

    def __init__(
        self,
        intercept: float = 1.0,
        diagonal: float = 1.0,
        off_diagonal: float = 1.0,
        rho: float = 1.0,
        tau: float = 1.0,
        most_classes: int = 1024,
    ) -> None:
        self.intercept = intercept
        self.diagonal = diagonal
        self.off_diagonal = off_diagonal
        self.rho = rho
        self.tau = tau
        self.most_classes = most_classes

    def _penalty(self, n: float, classes: int) -> Penalty:
        check_most_classes(type(self).__name__, classes, self.most_classes)
        r = classes**self.rho / n**self.tau
        pairs = (classes * (classes - 1)) ** self.rho / n**self.tau
        own = np.eye(classes)
        pull = 2 * r * self.diagonal * own + 2 * pairs * self.off_diagonal * (1 - own)
        return Penalty(own, pull, 2 * r * self.intercept)
