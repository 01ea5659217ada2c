"""Ensemble temperature scaling: temperature-scaled, original and uniform probabilities mixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import softmax
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.likelihood import fitting_logits
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.calibrators.temperature import warn_if_unbounded
from calibrant.predictions import Predictions

__all__ = ["EnsembleTemperature"]

_CHUNK = 1 << 18


class EnsembleTemperature(Calibrator):
    """p = w₁ softmax(l / T) + w₂ softmax(l) + w₃ / K, with w ≥ 0 and w₁ + w₂ + w₃ = 1.

    Zhang, Kailkhura, Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020: T as in temperature scaling, then w by NLL (convex in
    w). Four numbers; keeps the argmax. The uniform part bounds the price of confident mistakes.

    >>> p = Predictions.from_logits([[9.0, 0.0]] * 6 + [[1.0, 0.0]] * 4, [0] * 5 + [1] + [0] * 4)
    >>> ensemble = EnsembleTemperature().fit(p)
    >>> ensemble.fitted_on_["nll_after"] < ensemble.fitted_on_["nll_before"]
    True
    """

    name = "ensemble-temperature"
    gives = "probabilities"
    keeps_argmax = True

    temperature_: float
    weights_: np.ndarray

    def _fit(self, predictions: Predictions) -> Fit:
        logits, labels = fitting_logits(predictions), predictions.labels
        best = best_inverse_temperature(logits, labels)
        warn_if_unbounded(best)
        beta = 1.0 if best.at.spread == 0 else best.beta
        chosen = _label_probabilities(logits, labels, beta)
        return Fit({"temperature_": 1 / beta, "weights_": _mixture_weights(chosen)})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        weights = values["weights_"]
        scaled = softmax(scores / values["temperature_"])
        uniform = weights[2] / int(scores.shape[-1])
        return weights[0] * scaled + weights[1] * softmax(scores) + uniform


def _label_probabilities(logits: np.ndarray, labels: np.ndarray, beta: float) -> np.ndarray:
    """p_y under each of the three components, (n, 3)."""
    n, classes = logits.shape
    result = np.full((n, 3), 1 / classes)
    size = max(1, _CHUNK // classes)
    for start in range(0, n, size):
        part = slice(start, start + size)
        wide, rows = logits[part].astype(np.float64), np.arange(len(labels[part]))
        for column, scale in enumerate((beta, 1.0)):
            result[part, column] = softmax(scale * wide)[rows, labels[part]]
    return result


def _mixture_weights(chosen: np.ndarray) -> np.ndarray:
    """w on the simplex that minimises −mean log Σ_j w_j p_ij: Newton inside a shrinking barrier.

    Minimises −mean log(pw) − t Σ_j log w_j for t from 1e-2 down to 1e-12 with w₂ = 1 − w₀ − w₁.
    Weights that the barrier alone keeps from 0 are set to it at the end.
    """
    weights = np.full(3, 1 / 3)
    directions = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])  # Keep the sum of w at 1.
    for barrier in 10.0 ** -np.arange(2, 13):
        for _ in range(50):
            ratio = chosen / (chosen @ weights)[:, None]
            gradient = directions @ (-ratio.mean(axis=0) - barrier / weights)
            hessian = ratio.T @ ratio / len(ratio) + np.diag(barrier / weights**2)
            step = -np.linalg.solve(directions @ hessian @ directions.T, gradient) @ directions
            decrement = -float(gradient @ step[:2])
            shrinking = step < 0
            longest = min(1.0, *(0.9 * weights[shrinking] / -step[shrinking]))
            # Self-concordant functions: this damping suffices, no line search.
            weights = weights + min(longest, 1 / (1 + np.sqrt(max(decrement, 0) / barrier))) * step
            if decrement < 0.01 * barrier:
                break
    weights = np.where(weights < 1e-8, 0, weights)
    result: np.ndarray = weights / weights.sum()
    return result
