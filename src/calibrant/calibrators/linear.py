"""The objective of vector, matrix and Dirichlet scaling: multinomial logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.backend import log_softmax
from calibrant.calibrators.base import CalibrationWarning
from calibrant.calibrators.curvature import Inverse, inverse_curvature
from calibrant.calibrators.linear_pass import FEW_CLASSES, row_chunks, sum_of_nll, tempered
from calibrant.calibrators.minimize import Minimum, minimize
from calibrant.predictions import Predictions

__all__ = [
    "LinearFit",
    "Penalty",
    "fit_linear",
    "linear_features",
    "start_of_search",
    "tempered_features",
    "warn_unless_converged",
]

_LARGE = 1 << 20  # Scores, from here on float32.
_NEGLIGIBLE = 1e-8  # Nats above the minimum where the search in float32 ends.
_ROUNDING = 2e-7  # Of a mean NLL in float32.
_FINE = 1e-9  # The slope where a search in float64 ends: parameters are then exact to six digits.
# Rows of the first of two stages: the minimum, and per learned number.
_SAMPLE, _SAMPLE_PER_NUMBER = 20_000, 100


@dataclass(frozen=True)
class Penalty:
    """½ Σ pull · (w − centre)² + ½ intercept_pull Σ b²: Gaussian priors of weights and intercepts.

    ``centre`` and ``pull`` have the shape of the weights: (K,) or (K, K). The same change of all
    rows of W, or of all intercepts, changes no probability. So the value is the least that such a
    change allows, and a search may start anywhere.
    """

    centre: np.ndarray
    pull: np.ndarray
    intercept_pull: float

    def unpacked(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split weights and intercepts that are stored end to end."""
        size = self.centre.size
        return theta[:size].reshape(self.centre.shape), theta[size:]

    def __call__(
        self, weights: np.ndarray, intercepts: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the value and both gradients."""
        weights, intercepts = self.without_common_change(weights, intercepts)
        w_slope = self.pull * (weights - self.centre)
        b_slope = self.intercept_pull * intercepts
        value = float((w_slope * (weights - self.centre)).sum() + b_slope @ intercepts) / 2
        return value, w_slope, b_slope

    def without_common_change(
        self, weights: np.ndarray, intercepts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights and intercepts of the same probabilities that are pulled least."""
        if weights.ndim == 2:
            pulled = (self.pull * (weights - self.centre)).sum(axis=0)
            weights = weights - pulled / (self.pull.sum(axis=0) + 1e-300)
        return weights, intercepts - intercepts.mean()


@dataclass(frozen=True)
class LinearFit:
    """W and b, and the mean NLL there, without the penalty and up to rounding."""

    weights: np.ndarray
    intercepts: np.ndarray
    nll: float
    rounding: float


def linear_features(scores: np.ndarray, map_: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return map_(scores), computed row by row: float64, or float32 for 2²⁰ scores and more.

    Sums over that many rows tolerate rounding, and float32 halves what is read in each pass.
    """
    large = scores.size >= _LARGE
    short = np.promote_types(scores.dtype, np.float32)
    result = np.empty(scores.shape, np.float32 if large else np.float64)
    for part in row_chunks(*scores.shape):
        result[part] = map_(scores[part].astype(short if large else np.float64))
    return result


def tempered_features(scores: np.ndarray, beta: float) -> np.ndarray:
    """Return log softmax(β l), in the type of :func:`linear_features`."""
    found = tempered(scores, beta) if scores.size >= _LARGE else None
    if found is not None:
        return found
    return linear_features(scores, lambda part: log_softmax(part * beta))


def fit_linear(features: np.ndarray, predictions: Predictions, penalty: Penalty) -> LinearFit:
    """Find W and b that minimise the mean NLL of softmax(W x + b), plus the penalty.

    W has the shape of the penalty's centre, where the search starts: K weights (W = diag w)
    or K × K. Many K × K weights start at the best diagonal, whose passes need no product of
    matrices. Large data are fitted on a strided sample first; from its optimum the whole needs
    only a few passes. With float32 features the search ends about 1e-8 nats above the minimum.
    """
    best = _minimum(features, predictions, penalty)
    warn_unless_converged(best)
    weights, intercepts = penalty.without_common_change(*penalty.unpacked(best.x))
    nll = best.value - penalty(weights, intercepts)[0]
    rounding = _ROUNDING if features.dtype == np.float32 else 1e-12
    return LinearFit(weights, intercepts, nll, rounding)


def start_of_search(x: np.ndarray, sample: Predictions, penalty: Penalty) -> np.ndarray:
    """Return the best weights and intercepts of a sample, where a search of all rows may start."""
    return _minimum(x, sample, penalty).x


def _minimum(features: np.ndarray, predictions: Predictions, penalty: Penalty) -> Minimum:
    n, classes = features.shape
    labels, counts = predictions.labels, predictions.weights
    theta = np.append(penalty.centre, np.zeros(classes))
    if penalty.centre.ndim == 2 and classes > FEW_CLASSES:
        own = Penalty(np.diag(penalty.centre), np.diag(penalty.pull), penalty.intercept_pull)
        weights, intercepts = own.unpacked(_minimum(features, predictions, own).x)
        theta = np.append(np.diag(weights), intercepts)
    stride = n // max(_SAMPLE, _SAMPLE_PER_NUMBER * theta.size)
    if stride >= 4:
        sample = np.ascontiguousarray(features[::stride]), labels[::stride]
        some = None if counts is None else counts[::stride]
        theta = _search(*sample, some, penalty, theta, 1e-4).x
    tolerance = 1e-6 if features.dtype == np.float32 else _FINE
    return _search(features, labels, counts, penalty, theta, tolerance)


def _search(
    features: np.ndarray,
    labels: np.ndarray,
    counts: np.ndarray | None,
    penalty: Penalty,
    theta: np.ndarray,
    tolerance: float,
) -> Minimum:
    size = len(labels) if counts is None else float(counts.sum())

    def curvature(theta: np.ndarray) -> Inverse:
        return inverse_curvature(
            features, *penalty.unpacked(theta), penalty.pull, penalty.intercept_pull
        )

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = penalty.unpacked(theta)
        nll, *slopes = sum_of_nll(features, labels, *parameters, counts)
        pull, *pulls = penalty(*parameters)
        parts = [s / size + p for s, p in zip(slopes, pulls, strict=True)]
        return nll / size + pull, np.concatenate([part.ravel() for part in parts])

    is_short = features.dtype == np.float32
    return minimize(
        objective,
        theta,
        tolerance=tolerance,
        negligible=_NEGLIGIBLE if is_short else 0.0,
        noise=_ROUNDING if is_short else 0.0,
        curvature=curvature,
        curvatures=1 if features.shape[1] <= FEW_CLASSES else 2,
    )


def warn_unless_converged(best: Minimum) -> None:
    """Warn of a search that ended before its slope was small."""
    slope = float(np.abs(best.gradient).max())
    if not best.converged and slope > 1e-5:
        warnings.warn(
            f"The fit stopped after {best.evaluations} evaluations with a gradient of "
            f"{slope:.1g}; the calibrator is better than its start but not the best. A stronger "
            "regularisation helps.",
            CalibrationWarning,
            stacklevel=5,
        )
