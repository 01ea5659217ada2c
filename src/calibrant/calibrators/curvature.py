"""How the NLL of softmax(W x + c) curves at one point, inverted: a few steps in place of hundreds.

The entries of W matter very differently: those of a rare class, or of features that move together,
barely. A quasi-Newton search that starts from the inverse of the curvature knows this at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibrators.backend import softmax

__all__ = ["Inverse", "inverse_curvature"]

Inverse = Callable[[np.ndarray], np.ndarray]

_FEW_CLASSES = 32  # Up to here the whole matrix is made, of (K² + K)² ≤ 1.1 million numbers.
_ROWS, _ROWS_PER_CLASS = 1 << 11, 100  # Enough for a start; the search corrects the rest.


def inverse_curvature(
    features: np.ndarray, weights: np.ndarray, pull: np.ndarray, intercept_pull: float
) -> Inverse:
    """A function that multiplies (W, c), flat, by the inverse of the second derivatives.

    With x̃ = (x − mean x, 1) and Σ = diag(p) − ppᵀ, p = softmax(W x), they are mean_i Σ_i ⊗ x̃_i x̃_iᵀ
    (from a sample of the rows) plus ``pull`` of each weight and ``intercept_pull``. For many
    classes the mean of the products is taken as the product of the means, whose inverse is cheap
    (Martens & Grosse 2015).
    """
    n, classes = features.shape
    sample = features[:: max(1, n // max(_ROWS, _ROWS_PER_CLASS * classes))]
    probabilities = softmax(sample @ weights.T)
    sample = sample - features.mean(axis=0)
    if classes <= _FEW_CLASSES:
        return _whole(sample, probabilities, pull, intercept_pull)
    return _product(sample, probabilities, float(pull.mean()), intercept_pull)


def _whole(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    n, classes = x.shape
    extended = np.hstack([x, np.ones((n, 1))])
    table = np.empty((classes, classes + 1, classes, classes + 1))
    for k in range(classes):
        weight = p[:, [k]] * ((np.arange(classes) == k) - p) / n
        columns = (weight[:, :, None] * extended[:, None]).reshape(n, -1)
        table[k] = (extended.T @ columns).reshape(classes + 1, classes, classes + 1)
    matrix = table.reshape(classes * (classes + 1), -1)
    matrix += np.diag(np.hstack([pull, np.full((classes, 1), intercept_pull)]).ravel())
    # Without a pull, the same added to all classes changes nothing: no inverse without this.
    matrix += 1e-9 * np.diag(matrix).mean() * np.eye(len(matrix))
    inverse = np.linalg.inv(matrix)

    def multiply(slope: np.ndarray) -> np.ndarray:
        rows = np.hstack([slope[:-classes].reshape(classes, classes), slope[-classes:, None]])
        rows = (inverse @ rows.ravel()).reshape(rows.shape)
        return np.append(rows[:, :-1], rows[:, -1])

    return multiply


def _product(x: np.ndarray, p: np.ndarray, pull: float, intercept_pull: float) -> Inverse:
    n, classes = x.shape
    spread = np.diag(p.mean(axis=0)) - p.T @ p / n
    size, u = np.linalg.eigh(spread)
    length, v = np.linalg.eigh(x.T @ x / n)
    weights = np.outer(size.clip(0), length.clip(0)) + pull
    weights += 1e-9 * weights.mean()
    intercepts = size.clip(0) + intercept_pull
    intercepts += 1e-9 * intercepts.mean()

    def multiply(slope: np.ndarray) -> np.ndarray:
        turned = u.T @ slope[:-classes].reshape(classes, classes) @ v
        return np.append(u @ (turned / weights) @ v.T, u @ ((u.T @ slope[-classes:]) / intercepts))

    return multiply
