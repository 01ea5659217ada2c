"""Logistic regression of one event on a few features, by Newton's method."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.backend import sigmoid

__all__ = ["logistic_regression"]

_MOST_STEPS = 100
_TOLERANCE = 1e-10


def logistic_regression(
    features: np.ndarray, targets: np.ndarray, prior: np.ndarray, ridge: float | np.ndarray
) -> np.ndarray:
    """Find θ that minimises mean[log(1 + exp(xθ)) − t xθ] + ½ Σ ridge (θ − prior)².

    ``features`` has shape (n, d), ``targets`` lie in 0..1, ``ridge`` is one number or d numbers. It
    keeps θ finite if the classes are separable or one is missing. Newton's method, with the step
    halved until the loss falls, suffices because the loss is convex.

    >>> x = np.array([[1.0], [1.0], [1.0], [1.0]])
    >>> logistic_regression(x, np.array([1, 1, 1, 0]), np.zeros(1), 1e-9).round(6)  # log 3
    array([1.098612])
    """
    theta = prior.astype(np.float64)
    loss, gradient, hessian = _derivatives(features, targets, theta, prior, ridge)
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max() < _TOLERANCE:
            break
        step = -np.linalg.solve(hessian, gradient)
        for _ in range(60):
            new = _derivatives(features, targets, theta + step, prior, ridge)
            if new[0] <= loss + 1e-4 * float(gradient @ step) + 1e-15 * abs(loss):
                break
            step = step / 2
        else:
            break  # No step lowers the loss further: rounding, at the optimum.
        theta = theta + step
        loss, gradient, hessian = new
    return theta


def _derivatives(
    x: np.ndarray,
    targets: np.ndarray,
    theta: np.ndarray,
    prior: np.ndarray,
    ridge: float | np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    n = len(targets)
    z = x @ theta
    q = sigmoid(z)
    loss = float((np.logaddexp(0, z) - targets * z).mean())
    loss += float((ridge * (theta - prior) ** 2).sum()) / 2
    gradient = x.T @ (q - targets) / n + ridge * (theta - prior)
    hessian = (x.T * (q * (1 - q))) @ x / n + np.diag(np.zeros(len(theta)) + ridge)
    return loss, gradient, hessian
