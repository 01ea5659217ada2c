"""The objective of vector, matrix and Dirichlet scaling: multinomial logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.base import CalibrationWarning
from calibrant.calibrators.curvature import FEW_CLASSES, Inverse, inverse_curvature
from calibrant.calibrators.minimize import Minimum, minimize

__all__ = ["LinearFit", "Penalty", "fit_linear", "linear_features"]

_CHUNK = 1 << 18
_LARGE = 1 << 20  # Scores, from here on float32.
_NEGLIGIBLE = 5e-9  # Nats above the minimum where the search in float32 ends.
_ROUNDING = 2e-7  # Of a mean NLL in float32.
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
    """W and b, and the mean NLL there, without the penalty and up to rounding."""

    weights: np.ndarray
    intercepts: np.ndarray
    nll: float
    rounding: float


def linear_features(scores: np.ndarray, map_: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return map_(scores), computed row by row: float64, or float32 for 2²⁰ scores and more.

    Sums over so many rows forgive rounding, and float32 halves what is read in each pass.
    """
    large = scores.size >= _LARGE
    short = np.promote_types(scores.dtype, np.float32)
    result = np.empty(scores.shape, np.float32 if large else np.float64)
    for part in _parts(*scores.shape):
        result[part] = map_(scores[part].astype(short if large else np.float64))
    return result


def fit_linear(features: np.ndarray, labels: np.ndarray, penalty: Penalty) -> LinearFit:
    """Find W and b that minimise the mean NLL of softmax(W x + b), plus the penalty.

    W has the shape of the penalty's centre, where the search starts: K weights (W = diag w)
    or K × K. Large data are fitted on a strided sample first; from its optimum the whole needs
    only a few passes. With float32 features the search ends about 5e-9 nats above the minimum.
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
    nll = best.value - penalty(weights, intercepts)[0]
    rounding = _ROUNDING if features.dtype == np.float32 else 1e-12
    return LinearFit(weights, intercepts, nll, rounding)


def _search(
    features: np.ndarray,
    labels: np.ndarray,
    penalty: Penalty,
    theta: np.ndarray,
    tolerance: float,
) -> Minimum:
    def curvature(theta: np.ndarray) -> Inverse:
        return inverse_curvature(
            features, *penalty.unpacked(theta), penalty.pull, penalty.intercept_pull
        )

    is_short = features.dtype == np.float32
    return minimize(
        _Objective(features, labels, penalty),
        theta,
        tolerance=tolerance,
        negligible=_NEGLIGIBLE if is_short else 0.0,
        noise=_ROUNDING if is_short else 0.0,
        curvature=curvature,
        curvatures=1 if features.shape[1] <= FEW_CLASSES else 2,
    )


class _Objective:
    """The mean NLL plus the penalty, and its gradient by weights and intercepts."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, penalty: Penalty) -> None:
        self.features, self.labels, self.penalty = features, labels, penalty
        self.ones = np.ones(features.shape[1], features.dtype)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        n, is_vector = len(self.labels), self.penalty.centre.ndim == 1
        weights, intercepts = self.penalty.unpacked(theta)
        loss, w_slope, b_slope = self.penalty(weights, intercepts)
        multiply, b = self._multiply(weights), intercepts.astype(self.features.dtype)
        buffer = np.empty((0, 0))
        for part in _parts(n, len(self.ones), is_vector):
            x = self.features[part]
            buffer = buffer[: len(x)] if len(buffer) else np.empty_like(x)
            logits = multiply(x, buffer)
            logits += b
            nll, residual = _residual(logits, self.labels[part], self.ones)
            loss += nll / n
            w_slope += (np.einsum("nk,nk->k", residual, x) if is_vector else residual.T @ x) / n
            b_slope += np.ones(len(x), x.dtype) @ residual / n
        return loss, np.append(w_slope, b_slope)

    def _multiply(self, weights: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return (x, out) ↦ W x; where W is diagonal, as at the start, without a product."""
        w = weights.astype(self.features.dtype)
        diagonal = w if w.ndim == 1 else np.diag(w)
        if np.count_nonzero(w) == np.count_nonzero(diagonal):
            return lambda x, out: np.multiply(x, diagonal, out=out)
        return lambda x, out: np.matmul(x, w.T, out=out)


def _parts(n: int, classes: int, is_vector: bool = True) -> Iterator[slice]:
    # Products of up to 2¹⁸ multiplications stay on one core: OpenBLAS splits longer ones, and on a
    # busy machine its threads then wait for each other ten times as long as they work.
    size = max(1, _CHUNK // classes ** (2 if classes <= FEW_CLASSES else 1))
    if not is_vector and classes > FEW_CLASSES:
        size = max(size, 2 * classes)  # Else adding up (K, K) slopes takes as long as the products.
    return (slice(start, start + size) for start in range(0, n, size))


def _residual(logits: np.ndarray, labels: np.ndarray, ones: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ −log p_y, and p − onehot(y), computed in place of the logits."""
    rows = np.arange(len(labels))
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[rows, labels]
    np.exp(logits, out=logits)
    total = logits @ ones
    logits /= total[:, None]
    logits[rows, labels] -= 1
    return float((np.log(total) - chosen).sum(dtype=np.float64)), logits


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
