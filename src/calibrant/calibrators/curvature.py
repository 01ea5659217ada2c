"""Inverse curvature of the NLL of softmax(W x + b) at one point: few steps, not hundreds.

The entries of W matter very differently: those of a rare class, or of features that move together,
barely. A quasi-Newton search that starts from the inverse of the curvature knows this at once.

With x̃ = (x, 1) and Σ = diag(p) − ppᵀ the second derivatives are mean_i Σ_i ⊗ x̃_i x̃_iᵀ, plus the
pull of each weight and intercept. They are taken from a sample of the rows. Up to 32 classes the
whole matrix is inverted. With more, classes are taken one by one, and the matrix of class k is
q_k (μ_k μ_kᵀ + diag σ²_k): x̃ has mean μ_k and variances σ²_k under the weights p_k (1 − p_k), whose
mean is q_k. The inverse then takes O(K²) by the formula of Sherman and Morrison (1950).
A sample has few examples of each class, so where W is diagonal, q_k and the moments of x_k, which
cost no product of matrices, are taken from all rows: steps then are nearly those of Newton.

One direction is missing in single classes: the same change of all rows of W adds the same to all
logits, which changes no probability. Only the penalty sees it, so the steps leave it out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibrators.backend import softmax
from calibrant.calibrators.linear_pass import FEW_CLASSES, sums_of_spread
from calibrant.calibrators.products import rows_times, sum_of_products

__all__ = ["Inverse", "inverse_curvature"]

Inverse = Callable[[np.ndarray], np.ndarray]

_ROWS_PER_CLASS = 100  # Of the sample for the whole matrix.
_ROWS, _MOST_ROWS = 1 << 11, 1 << 13
_MOST_PRODUCTS = 1 << 32  # Rows times K²: a few tenths of a second.


def inverse_curvature(
    features: np.ndarray,
    weights: np.ndarray,
    intercepts: np.ndarray,
    pull: np.ndarray,
    intercept_pull: float,
) -> Inverse:
    """Return a function that multiplies flat (W, b) by the approximate inverse curvature."""
    n, classes = features.shape
    is_vector, is_whole = weights.ndim == 1, classes <= FEW_CLASSES
    diagonal = weights if is_vector else np.diag(weights)
    own = None
    if not is_whole and np.count_nonzero(weights) == np.count_nonzero(diagonal):
        own = sums_of_spread(features, diagonal, intercepts) / n
        if is_vector:
            return _class_by_class_vector(own, pull, intercept_pull)
    rows = _ROWS_PER_CLASS * classes if is_whole else min(_MOST_ROWS, _MOST_PRODUCTS // classes**2)
    x = features[:: -(-n // max(_ROWS, rows))]
    logits = x * weights.astype(x.dtype) if is_vector else rows_times(x, weights.T.astype(x.dtype))
    p = softmax(logits + intercepts.astype(x.dtype))
    if is_whole:
        return (_whole_vector if is_vector else _whole)(x, p, pull, intercept_pull)
    return _without_common_change(_class_by_class(x, p, own, pull, intercept_pull), pull)


def _whole_vector(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    """Invert for W = diag w: with z = (p ∘ x, p), diagonals of means less zᵀz / n."""
    n, classes = x.shape
    z = np.hstack([p * x, p])
    matrix = sum_of_products(z, z) / -n
    k = np.arange(classes)
    first = (p * x).mean(axis=0)
    matrix[k, k] += (p * x**2).mean(axis=0) + pull
    matrix[k, k + classes] += first
    matrix[k + classes, k] += first
    matrix[k + classes, k + classes] += p.mean(axis=0) + intercept_pull
    inverse = _inverse(matrix)
    return lambda slope: inverse @ slope


def _whole(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    n, classes = x.shape
    extended = np.hstack([x, np.ones((n, 1))])
    table = np.empty((classes, classes + 1, classes, classes + 1))
    for k in range(classes):
        weight = p[:, [k]] * ((np.arange(classes) == k) - p) / n
        columns = (weight[:, :, None] * extended[:, None]).reshape(n, -1)
        product = sum_of_products(extended, columns)
        table[k] = product.reshape(classes + 1, classes, classes + 1)
    matrix = table.reshape(classes * (classes + 1), -1)
    matrix += np.diag(np.hstack([pull, np.full((classes, 1), intercept_pull)]).ravel())
    inverse = _inverse(matrix)
    return _by_row(classes, lambda rows: (inverse @ rows.ravel()).reshape(rows.shape))


def _class_by_class_vector(moments: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    """Invert a 2 × 2 matrix for the weight and the intercept of each class."""
    constant, mixed, own = moments[0] + intercept_pull, moments[1], moments[2] + pull
    own, constant = own + 1e-9 * own.mean() + 1e-300, constant + 1e-9 * constant.mean() + 1e-300
    scale = 1 / (own * constant - mixed**2)

    def multiply(slope: np.ndarray) -> np.ndarray:
        w, b = slope[: len(own)], slope[len(own) :]
        moved = scale * (own * b - mixed * w)
        return np.append(scale * (constant * w - mixed * b), moved - moved.mean())

    return multiply


def _class_by_class(
    x: np.ndarray,
    p: np.ndarray,
    own: np.ndarray | None,
    pull: np.ndarray,
    intercept_pull: float,
) -> Inverse:
    """Invert (q μμᵀ + D) for each class, D = diag(q σ² + pull).

    ``own`` has q and the first two moments of x_k times q, of all rows, where they are known.
    """
    classes, spread = x.shape[1], p * (1 - p) / np.asarray(len(x), x.dtype)
    q = spread.sum(axis=0, dtype=np.float64).reshape(-1, 1) + 1e-300
    mean, square = sum_of_products(spread, x) / q, sum_of_products(spread, x * x) / q
    if own is not None:
        q = own[0].reshape(-1, 1) + 1e-300
        np.fill_diagonal(mean, own[1] / q[:, 0])
        np.fill_diagonal(square, own[2] / q[:, 0])
    size = np.hstack(
        [np.maximum(q * (square - mean**2), 0) + pull, np.full_like(q, intercept_pull)]
    )
    mean = np.hstack([mean, np.ones((classes, 1))])
    size += 1e-9 * size.mean() + 1e-300
    ratio = mean / size
    share = ratio / (1 / q + (mean * ratio).sum(axis=1, keepdims=True))
    return _by_row(
        classes, lambda rows: rows / size - share * (ratio * rows).sum(axis=1, keepdims=True)
    )


def _without_common_change(inverse: Inverse, pull: np.ndarray) -> Inverse:
    """Project out changes that all rows share: P H⁻¹ Pᵀ, P in the metric of the penalty."""
    classes = len(pull)
    weight = pull + 1e-300
    share = np.hstack([weight / weight.sum(axis=0), np.full((classes, 1), 1 / classes)])
    before = _by_row(classes, lambda rows: rows - share * rows.sum(axis=0))
    after = _by_row(classes, lambda rows: rows - (share * rows).sum(axis=0))
    return lambda slope: after(inverse(before(slope)))


def _by_row(classes: int, multiply: Callable[[np.ndarray], np.ndarray]) -> Inverse:
    """Apply a function of (K, K + 1) rows, each with its intercept last, to flat (W, b)."""

    def flat(slope: np.ndarray) -> np.ndarray:
        rows = np.hstack([slope[:-classes].reshape(classes, classes), slope[-classes:, None]])
        rows = multiply(rows)
        return np.append(rows[:, :-1], rows[:, -1])

    return flat


def _inverse(matrix: np.ndarray) -> np.ndarray:
    # Without a pull, adding a constant to all classes changes nothing, so no inverse would exist.
    ridge = 1e-9 * float(np.diag(matrix).mean()) + 1e-300
    return np.linalg.inv(matrix + ridge * np.eye(len(matrix)))
