"""Vector scaling: a weight and an intercept per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.linear import Penalty, fit_linear
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["Vector", "centred"]


class Vector(Calibrator):
    """p = softmax(w ∘ x + b) with w, b ∈ ℝᴷ and x the logits less their mean over the classes.

    Guo et al. 2017. They take the logits as they come; less the row mean, logits and
    log-probabilities of the same predictions give the same map.

    The objective is the mean NLL plus (shrinkage / 2n) Σ_k [(T w_k − 1)² + b_k²]: a Gaussian
    prior around temperature scaling, worth about one example per class at 1, which keeps the map
    of rare and missing classes finite. ``shrinkage=0`` is the published map.

    Use it when classes are wrong in different directions, with at least tens of examples each.

    >>> p = Predictions.from_logits([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]] * 9, [1, 0, 0] * 9)
    >>> vector = Vector().fit(p)
    >>> vector.fitted_on_["nll_after"] < vector.fitted_on_["nll_before"]
    True
    """

    name = "vector"

    weights_: np.ndarray
    intercepts_: np.ndarray

    def __init__(self, shrinkage: float = 1.0) -> None:
        self.shrinkage = shrinkage

    def _fit(self, predictions: Predictions) -> Fit:
        if not self.shrinkage >= 0:
            raise InputError(f"Vector expects shrinkage ≥ 0, got {self.shrinkage}.")
        x = centred(predictions.scores.astype(np.float64))
        beta = best_inverse_temperature(x, predictions.labels).beta
        strength, ones = self.shrinkage / len(predictions), np.ones(predictions.classes)
        penalty = Penalty(ones, strength * ones, strength)
        # In units of the temperature the weights are near 1 for logits of any size.
        x *= beta
        best = fit_linear(x, predictions.labels, penalty)
        return Fit(
            {"weights_": beta * best.weights, "intercepts_": best.intercepts}, None, best.nll
        )

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return centred(scores) * values["weights_"] + values["intercepts_"]


def centred(logits: Array) -> Array:
    """Subtract from the logits their mean over the classes."""
    return logits - logits.mean(axis=-1, keepdims=True)
