"""Inverse curvature of the NLL of softmax(W x + b) at one point: few steps, not hundreds.

The entries of W matter very differently: those of a rare class, or of features that move together,
barely. A quasi-Newton search that starts from the inverse of the curvature knows this at once.

With x̃ = (x, 1) and Σ = diag(p) − ppᵀ the second derivatives are mean_i Σ_i ⊗ x̃_i x̃_iᵀ, plus the
pull of each weight and intercept. They are taken from a sample of the rows, and as far as their
number allows: all of them; for each class by itself (block Jacobi); or the diagonal of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibrators.backend import softmax

__all__ = ["Inverse", "inverse_curvature"]

Inverse = Callable[[np.ndarray], np.ndarray]
Form = Callable[[np.ndarray, np.ndarray, np.ndarray, float], Inverse]

_FEW_CLASSES = 32  # Up to here the whole matrix is made, of (K² + K)² ≤ 1.1 million numbers.
_SOME_CLASSES = 256  # Up to here one matrix per class is made, K (K + 1)² ≤ 17 million numbers.
_ROWS = 1 << 11  # The smallest sample.
_MOST_PRODUCTS = 1 << 32  # Rows times K²: a second or two.


def inverse_curvature(
    features: np.ndarray,
    weights: np.ndarray,
    intercepts: np.ndarray,
    pull: np.ndarray,
    intercept_pull: float,
) -> Inverse:
    """Return a function that multiplies flat (W, b) by the approximate inverse curvature."""
    make = _form(weights)
    n, classes = features.shape
    rows = min(_ROWS_PER_CLASS[make] * classes, _MOST_PRODUCTS // classes**2)
    x = features[:: -(-n // max(_ROWS, rows))]
    logits = x * weights if weights.ndim == 1 else x @ weights.T
    return make(x, softmax(logits + intercepts), pull, intercept_pull)


def _form(weights: np.ndarray) -> Form:
    """Choose how much of the matrix to compute, by the number of weights."""
    if weights.ndim == 1:
        return _vector
    if len(weights) <= _FEW_CLASSES:
        return _whole
    return _blocks if len(weights) <= _SOME_CLASSES else _diagonal


def _vector(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    """Invert for W = diag w: with z = (p ∘ x, p), diagonals of means less zᵀz / n."""
    n, classes = x.shape
    z = np.hstack([p * x, p])
    matrix = z.T @ z / -n
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
        table[k] = (extended.T @ columns).reshape(classes + 1, classes, classes + 1)
    matrix = table.reshape(classes * (classes + 1), -1)
    matrix += np.diag(np.hstack([pull, np.full((classes, 1), intercept_pull)]).ravel())
    inverse = _inverse(matrix)
    return _by_row(classes, lambda rows: (inverse @ rows.ravel()).reshape(rows.shape))


def _blocks(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    """Invert as if the weights of different classes did not interact."""
    n, classes = x.shape
    extended = np.hstack([x, np.ones((n, 1))])
    inverses = np.empty((classes, classes + 1, classes + 1))
    for k in range(classes):
        block = (extended.T * (p[:, k] * (1 - p[:, k]) / n)) @ extended
        block += np.diag(np.append(pull[k], intercept_pull))
        inverses[k] = _inverse(block)
    return _by_row(classes, lambda rows: (inverses @ rows[:, :, None])[:, :, 0])


def _diagonal(x: np.ndarray, p: np.ndarray, pull: np.ndarray, intercept_pull: float) -> Inverse:
    """Invert each class's own weights and intercepts together, every other weight by itself."""
    n, classes = x.shape
    size = (p * (1 - p)).T @ x**2 / n + pull
    size += 1e-9 * size.mean()
    vector = _vector(x, p, np.diag(pull), intercept_pull)

    def multiply(slope: np.ndarray) -> np.ndarray:
        rows = slope[:-classes].reshape(classes, classes)
        own = vector(np.append(np.diag(rows), slope[-classes:]))
        result = rows / size
        np.fill_diagonal(result, own[:classes])
        return np.append(result, own[classes:])

    return multiply


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


_ROWS_PER_CLASS: dict[Form, int] = {_vector: 100, _whole: 100, _blocks: 20, _diagonal: 8}
