"""The objective of vector, matrix and Dirichlet scaling: multinomial logistic regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.base import CalibrationWarning
from calibrant.calibrators.curvature import inverse_curvature
from calibrant.calibrators.minimize import Minimum, minimize

__all__ = ["Penalty", "fit_matrix", "fit_vector"]

_CHUNK = 1 << 18
_FEW_CLASSES = 32


@dataclass(frozen=True)
class Penalty:
    """½ Σ pull · (w − centre)² + ½ intercept_pull Σ b²: Gaussian priors of weights and intercepts.

    ``centre`` and ``pull`` have the shape of the weights.
    """

    centre: np.ndarray
    pull: np.ndarray
    intercept_pull: float

    def __call__(
        self, weights: np.ndarray, intercepts: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The value and both gradients."""
        w_slope = self.pull * (weights - self.centre)
        b_slope = self.intercept_pull * intercepts
        value = float((w_slope * (weights - self.centre)).sum() + b_slope @ intercepts) / 2
        return value, w_slope, b_slope


def fit_matrix(
    features: np.ndarray, labels: np.ndarray, penalty: Penalty
) -> tuple[np.ndarray, np.ndarray]:
    """W (K, K) and b (K,) that minimise the mean NLL of softmax(W x + b), plus the penalty.

    Sought from the penalty's centre on, as W and c = b + W m, m the mean of x: log-probabilities
    are far from 0, which ties the weights to the intercepts.
    """
    n, classes = features.shape
    middle = features.mean(axis=0)

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights, shifted = theta[:-classes].reshape(classes, classes), theta[-classes:]
        intercepts = shifted - weights @ middle
        loss, w_slope, b_slope = penalty(weights, intercepts)
        for part in _parts(n, classes):
            nll, residual = _residual(features[part] @ weights.T + intercepts, labels[part])
            loss += nll / n
            w_slope = w_slope + residual.T @ features[part] / n
            b_slope = b_slope + residual.sum(axis=0) / n
        return loss, np.append(w_slope - np.outer(b_slope, middle), b_slope)

    start = np.append(penalty.centre, penalty.centre @ middle)
    inverse = inverse_curvature(features, penalty.centre, penalty.pull, penalty.intercept_pull)
    best = minimize(value, start, tolerance=1e-6, inverse=inverse)
    _warn_unless_converged(best)
    weights, shifted = best.x[:-classes].reshape(classes, classes), best.x[-classes:]
    return weights, shifted - weights @ middle


def fit_vector(
    features: np.ndarray, labels: np.ndarray, penalty: Penalty
) -> tuple[np.ndarray, np.ndarray]:
    """w (K,) and b (K,) that minimise the mean NLL of softmax(w ∘ x + b), plus the penalty."""
    classes = features.shape[1]

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights, intercepts = theta[:classes], theta[classes:]
        loss, w_slope, b_slope = penalty(weights, intercepts)
        n = len(labels)
        for part in _parts(n, classes):
            nll, residual = _residual(features[part] * weights + intercepts, labels[part])
            loss += nll / n
            w_slope = w_slope + np.einsum("nk,nk->k", residual, features[part]) / n
            b_slope = b_slope + residual.sum(axis=0) / n
        return loss, np.append(w_slope, b_slope)

    best = minimize(value, np.append(penalty.centre, np.zeros(classes)))
    _warn_unless_converged(best)
    return best.x[:classes], best.x[classes:]


def _parts(n: int, classes: int) -> list[slice]:
    # Products of up to 2¹⁸ multiplications stay on one core: OpenBLAS splits longer ones, and on a
    # busy machine its threads then wait for each other ten times as long as they work.
    size = max(1, _CHUNK // classes ** (2 if classes <= _FEW_CLASSES else 1))
    return [slice(start, start + size) for start in range(0, n, size)]


def _residual(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ −log p_y, and p − onehot(y), computed in place of the logits."""
    rows = np.arange(len(labels))
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[rows, labels]
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    logits /= total
    logits[rows, labels] -= 1
    return float((np.log(total[:, 0]) - chosen).sum()), logits


def _warn_unless_converged(best: Minimum) -> None:
    slope = float(np.abs(best.gradient).max())
    if not best.converged and slope > 1e-5:
        warnings.warn(
            f"The fit stopped after {best.evaluations} evaluations with a gradient of "
            f"{slope:.1g}; the map is better than its start but not the best. A stronger "
            "regularisation helps.",
            CalibrationWarning,
            stacklevel=5,
        )
