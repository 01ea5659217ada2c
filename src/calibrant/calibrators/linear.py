"""The objective of vector, matrix and Dirichlet scaling: multinomial logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.base import CalibrationWarning
from calibrant.calibrators.curvature import inverse_curvature
from calibrant.calibrators.minimize import Minimum, minimize

__all__ = ["LinearFit", "Penalty", "fit_linear"]

_CHUNK = 1 << 18
_FEW_CLASSES = 32
# Rows of the first of two stages: the minimum, and per learned number.
_SAMPLE, _SAMPLE_PER_NUMBER = 20_000, 100


@dataclass(frozen=True)
class Penalty:
    """½ Σ pull · (w − centre)² + ½ intercept_pull Σ b²: Gaussian priors of weights and intercepts.

    ``centre`` and ``pull`` have the shape of the weights: (K,) or (K, K).
    """

    centre: np.ndarray
    pull: np.ndarray
    intercept_pull: float

    def unpacked(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split weights and intercepts that lie end to end."""
        size = self.centre.size
        return theta[:size].reshape(self.centre.shape), theta[size:]

    def __call__(
        self, weights: np.ndarray, intercepts: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the value and both gradients."""
        w_slope = self.pull * (weights - self.centre)
        b_slope = self.intercept_pull * intercepts
        value = float((w_slope * (weights - self.centre)).sum() + b_slope @ intercepts) / 2
        return value, w_slope, b_slope


@dataclass(frozen=True)
class LinearFit:
    """W and b, and the mean NLL there, without the penalty."""

    weights: np.ndarray
    intercepts: np.ndarray
    nll: float


def fit_linear(features: np.ndarray, labels: np.ndarray, penalty: Penalty) -> LinearFit:
    """Find W and b that minimise the mean NLL of softmax(W x + b), plus the penalty.

    W has the shape of the penalty's centre, where the search starts: K weights (W = diag w)
    or K × K. Large data are fitted on a strided sample first; from its optimum the whole needs
    only a few passes.
    """
    n, classes = features.shape
    theta = np.append(penalty.centre, np.zeros(classes))
    stride = n // max(_SAMPLE, _SAMPLE_PER_NUMBER * theta.size)
    if stride >= 4:
        sample = np.ascontiguousarray(features[::stride]), labels[::stride]
        theta = _search(*sample, penalty, theta, 1e-4).x
    best = _search(features, labels, penalty, theta, 1e-6)
    _warn_unless_converged(best)
    weights, intercepts = penalty.unpacked(best.x)
    return LinearFit(weights, intercepts, best.value - penalty(weights, intercepts)[0])


def _search(
    features: np.ndarray,
    labels: np.ndarray,
    penalty: Penalty,
    theta: np.ndarray,
    tolerance: float,
) -> Minimum:
    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        return _objective(features, labels, penalty, *penalty.unpacked(theta))

    curvature = features, *penalty.unpacked(theta), penalty.pull, penalty.intercept_pull
    inverse = inverse_curvature(*curvature)
    return minimize(value, theta, tolerance=tolerance, inverse=inverse)


def _objective(
    features: np.ndarray,
    labels: np.ndarray,
    penalty: Penalty,
    weights: np.ndarray,
    intercepts: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return the value, and the gradient by weights and intercepts."""
    n, is_vector = len(labels), weights.ndim == 1
    loss, w_slope, b_slope = penalty(weights, intercepts)
    for part in _parts(*features.shape):
        x = features[part]
        logits = x * weights if is_vector else x @ weights.T
        logits += intercepts
        nll, residual = _residual(logits, labels[part])
        loss += nll / n
        w_slope += (np.einsum("nk,nk->k", residual, x) if is_vector else residual.T @ x) / n
        b_slope += residual.sum(axis=0) / n
    return loss, np.append(w_slope, b_slope)


def _parts(n: int, classes: int) -> Iterator[slice]:
    # Products of up to 2¹⁸ multiplications stay on one core: OpenBLAS splits longer ones, and on a
    # busy machine its threads then wait for each other ten times as long as they work.
    size = max(1, _CHUNK // classes ** (2 if classes <= _FEW_CLASSES else 1))
    return (slice(start, start + size) for start in range(0, n, size))


def _residual(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ −log p_y, and p − onehot(y), computed in place of the logits."""
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
