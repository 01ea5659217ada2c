"""Vector, matrix and Dirichlet scaling: weights and intercepts of the classes' logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import log_softmax, wide
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.checks import check_most_classes
from calibrant.calibrators.linear import LinearFit, Penalty, fit_linear, linear_features
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["Dirichlet", "Matrix", "Vector", "WeightMatrix", "centred"]

# Prior standard deviations, of T·w off the diagonal and of b, which give the defaults.
_OFF_DIAGONAL_SCALE = 0.1
_INTERCEPT_SCALE = 1.0


class Vector(Calibrator):
    """p = softmax(w ∘ x + b) with w, b ∈ ℝᴷ and x the logits less their mean over the classes.

    Guo et al. 2017. They take the logits unchanged; minus the row mean, logits and
    log-probabilities of the same predictions give the same calibrator.

    The objective is the mean NLL plus (shrinkage / 2n) Σ_k [(T w_k − 1)² + b_k²]: a Gaussian prior
    around temperature scaling, worth about one example per class at 1, which keeps the calibrator
    of rare and missing classes finite. ``shrinkage=0`` is the published calibrator.

    Use it when classes are wrong in different directions, with at least tens of examples each.

    >>> p = Predictions.from_logits([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]] * 9, [1, 0, 0] * 9)
    >>> vector = Vector().fit(p)
    >>> vector.fitted_on_["nll_after"] < vector.fitted_on_["nll_before"]
    True
    """

    name = "vector"
    takes_weights = True

    weights_: np.ndarray
    intercepts_: np.ndarray

    def __init__(self, shrinkage: float = 1.0) -> None:
        self.shrinkage = shrinkage

    def _fit(self, predictions: Predictions) -> Fit:
        penalty = self.checked_penalty(predictions.size, predictions.classes)
        beta = best_inverse_temperature(
            predictions.scores, predictions.labels, weights=predictions.weights
        ).beta
        # In units of the temperature the weights are near 1 for logits of any size.
        x = linear_features(predictions.scores, lambda s: beta * centred(wide(s)))
        return _in_units_of_scores(fit_linear(x, predictions, penalty), beta)

    def checked_penalty(self, n: float, classes: int) -> Penalty:
        """Check the hyper-parameter and return the prior."""
        if not self.shrinkage >= 0:
            raise InputError(f"Vector expects shrinkage ≥ 0, got {self.shrinkage}.")
        strength, ones = self.shrinkage / n, np.ones(classes)
        return Penalty(ones, strength * ones, strength)

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return centred(scores) * values["weights_"] + values["intercepts_"]


def _in_units_of_scores(best: LinearFit, beta: float) -> Fit:
    learned = {"weights_": beta * best.weights, "intercepts_": best.intercepts}
    return Fit(learned, None, best.nll, rounding=best.rounding)


def centred(logits: Array) -> Array:
    """Subtract from the logits their mean over the classes."""
    return logits - logits.mean(axis=-1, keepdims=True)


class WeightMatrix(Calibrator):
    """p = softmax(W x + b) with off-diagonal and intercept regularisation (ODIR).

    The objective is NLL + λ / (K (K − 1)) Σ_{i≠j} (T w_ij)² + μ / K Σ_k b_k² with λ =
    ``off_diagonal`` and μ = ``intercept`` (Kull et al. 2019; they leave out T, the temperature,
    which makes λ independent of the size of the logits). Without given values, λ = 50 K (K − 1) /
    n and μ = K / 2n: Gaussian priors with standard deviations 0.1 and 1, so that more data count
    for more. Their diagonal is free; here (1 / 2n) Σ_k (T w_kk − 1)² is added, which a handful of
    examples outweighs, so that a class without any stays finite. The fit starts from temperature
    scaling and never ends worse.

    K² + K numbers: more than ``most_classes`` classes are refused.
    """

    takes_weights = True

    weights_: np.ndarray
    intercepts_: np.ndarray

    def __init__(
        self,
        off_diagonal: float | None = None,
        intercept: float | None = None,
        most_classes: int = 256,
    ) -> None:
        self.off_diagonal = off_diagonal
        self.intercept = intercept
        self.most_classes = most_classes

    @staticmethod
    @abstractmethod
    def _features(logits: Array) -> Array:
        """Return x, from (n, K) logits."""

    def _fit(self, predictions: Predictions) -> Fit:
        penalty = self.checked_penalty(predictions.size, predictions.classes)
        beta = best_inverse_temperature(
            predictions.scores, predictions.labels, weights=predictions.weights
        ).beta
        x = linear_features(predictions.scores, lambda s: beta * self._features(wide(s)))
        return _in_units_of_scores(fit_linear(x, predictions, penalty), beta)

    def checked_penalty(self, n: float, classes: int) -> Penalty:
        """Divide λ and μ by the numbers they average over, around identity."""
        check_most_classes(type(self).__name__, classes, self.most_classes)
        pairs = classes * (classes - 1)
        strength = 1 / (2 * n * _OFF_DIAGONAL_SCALE**2)
        if self.off_diagonal is not None:
            strength = self.off_diagonal / pairs
        pull = 1 / (2 * n * _INTERCEPT_SCALE**2)
        if self.intercept is not None:
            pull = self.intercept / classes
        free = np.eye(classes)
        return Penalty(free, 2 * strength * (1 - free) + free / n, 2 * pull)

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return self._features(scores) @ values["weights_"].T + values["intercepts_"]


class Matrix(WeightMatrix):
    """p = softmax(W x + b), x the logits less their mean over the classes.

    Guo et al. 2017, with the regularisation of :class:`WeightMatrix`, without which it overfits.

    >>> p = Predictions.from_logits([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]] * 9, [1, 0, 0] * 9)
    >>> matrix = Matrix().fit(p)
    >>> matrix.fitted_on_["nll_after"] < matrix.fitted_on_["nll_before"]
    True
    """

    name = "matrix"

    @staticmethod
    def _features(logits: Array) -> Array:
        return centred(logits)


class Dirichlet(WeightMatrix):
    """p = softmax(W log p + b): what follows when the predictions of each class are Dirichlet.

    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling", NeurIPS
    2019, with the regularisation of :class:`WeightMatrix`. The multiclass form of beta calibration.

    >>> p = Predictions.from_probabilities([[0.9, 0.1]] * 3 + [[0.2, 0.8]] * 3, [0, 0, 1, 1, 1, 0])
    >>> Dirichlet().fit(p).transform(p).scores[[0, 3], 0].round(2)
    array([0.67, 0.35])
    """

    name = "dirichlet"

    @staticmethod
    def _features(logits: Array) -> Array:
        return log_softmax(logits)
