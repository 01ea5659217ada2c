"""Platt and beta calibration: logistic regression of one event on a few features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import namespace, sigmoid
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve
from calibrant.errors import InputError
from calibrant.predictions import Kind

__all__ = ["Beta", "Platt", "logistic_regression", "root_mean_square", "sum_of"]

_MOST_STEPS = 100
_TOLERANCE = 1e-10


def logistic_regression(
    features: np.ndarray,
    targets: np.ndarray,
    prior: np.ndarray,
    ridge: float | np.ndarray,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Find θ that minimises mean[log(1 + exp(xθ)) − t xθ] + ½ Σ ridge (θ − prior)².

    ``features`` has shape (n, d), ``targets`` lie in 0..1, ``ridge`` is one number or d numbers. It
    keeps θ finite if the classes are separable or one is missing. Newton's method, with the step
    halved until the loss falls, suffices because the loss is convex. With sample weights the mean
    is weighted.

    >>> x = np.array([[1.0], [1.0], [1.0], [1.0]])
    >>> logistic_regression(x, np.array([1, 1, 1, 0]), np.zeros(1), 1e-9).round(6)  # log 3
    array([1.098612])
    """
    theta, n = prior.astype(np.float64), len(targets)
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    loss, gradient, hessian = _derivatives(features, targets, share, theta, prior, ridge)
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max() < _TOLERANCE:
            break
        step = -np.linalg.solve(hessian, gradient)
        for _ in range(60):
            new = _derivatives(features, targets, share, theta + step, prior, ridge)
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
    share: np.ndarray,
    theta: np.ndarray,
    prior: np.ndarray,
    ridge: float | np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    z = x @ theta
    q = sigmoid(z)
    loss = float(share @ (np.logaddexp(0, z) - targets * z))
    loss += float((ridge * (theta - prior) ** 2).sum()) / 2
    gradient = x.T @ (share * (q - targets)) + ridge * (theta - prior)
    hessian = (x.T * (share * q * (1 - q))) @ x + np.diag(np.zeros(len(theta)) + ridge)
    return loss, gradient, hessian


def sum_of(weights: np.ndarray | None, chosen: np.ndarray) -> float:
    """Return the sum of the weights of chosen examples, or without weights their number."""
    return float(chosen.sum() if weights is None else weights[chosen].sum())


def root_mean_square(scores: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the size of the scores, by which features are divided."""
    return float(np.sqrt(np.average(scores**2, weights=weights)))


def _targets(happened: np.ndarray, smooth: bool, weights: np.ndarray | None) -> np.ndarray:
    """Return 1 and 0, or Platt's (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2)."""
    if not smooth:
        return happened.astype(np.float64)
    positive, negative = sum_of(weights, happened), sum_of(weights, ~happened)
    smoothed = np.where(happened, (positive + 1) / (positive + 2), 1 / (negative + 2))
    return np.asarray(smoothed)


class Platt(OneVsRest):
    """q_k = sigmoid(a_k s_k + b_k) with s_k = log p_k / (1 − p_k); one against the rest.

    Platt, "Probabilistic Outputs for Support Vector Machines", 1999, with his targets
    (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2), which keep a and b finite; ``smooth_targets=False``
    fits the labels as they are. Two numbers per class; good for binary models with little data.

    >>> from calibrant import Predictions
    >>> logits, labels = [[0.0, 2.0]] * 10 + [[0.0, -3.0]] * 10, [1] * 7 + [0] * 12 + [1]
    >>> platt = Platt().fit(Predictions.from_logits(logits, labels))
    >>> platt.slope_.round(3), platt.intercept_.round(3)
    (array([[0.465]]), array([[-0.305]]))
    """

    name = "platt"
    takes: ClassVar[Kind] = "logits"

    slope_: np.ndarray
    intercept_: np.ndarray

    def __init__(self, smooth_targets: bool = True) -> None:
        self.smooth_targets = smooth_targets

    def _scalar(self) -> ScalarCurve:
        return _Sigmoid(self.smooth_targets)


class _Sigmoid(ScalarCurve):
    def __init__(self, smooth_targets: bool) -> None:
        self.smooth_targets = smooth_targets

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        targets = _targets(happened, self.smooth_targets, weights)
        # Scores have any scale, so the slope is fitted in units of their spread.
        scale = max(root_mean_square(scores, weights), 1e-300)
        features = np.stack([scores / scale, np.ones_like(scores)], axis=1)
        start = np.array([scale, 0.0])
        slope, intercept = logistic_regression(features, targets, start, 1e-12, weights)
        return {"slope_": np.array([slope / scale]), "intercept_": np.array([intercept])}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return sigmoid(scores * values["slope_"][:, 0] + values["intercept_"][:, 0])


class Beta(OneVsRest):
    """q_k = sigmoid(a log p_k − b log(1 − p_k) + c) with a, b ≥ 0; one against the rest.

    Kull, Silva Filho, Flach, "Beta calibration", AISTATS 2017: if the best a or b is negative it is
    set to 0 and the others are fitted again, so the calibrator never decreases. To the mean loss ½
    ``ridge`` / n ‖(a, b, c) − (1, 1, 0)‖² is added, a Gaussian prior around identity: it bounds a
    class that is separable or missing and fades as examples grow; the paper has none.
    ``smooth_targets`` fits the targets of :class:`Platt`, so that few examples without a mistake do
    not become certainty.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.8] * 27 + [0.3] * 27, [1, 1, 0] * 9 + [1, 0, 0] * 9)
    >>> Beta().fit(p).transform(p).scores[[0, -1], 1].round(2)
    array([0.67, 0.33])
    """

    name = "beta"
    takes: ClassVar[Kind] = "logits"

    a_: np.ndarray
    b_: np.ndarray
    c_: np.ndarray

    def __init__(self, ridge: float = 0.1, smooth_targets: bool = False) -> None:
        self.ridge = ridge
        self.smooth_targets = smooth_targets

    def _scalar(self) -> ScalarCurve:
        return _BetaCurve(self.ridge, self.smooth_targets)


class _BetaCurve(ScalarCurve):
    def __init__(self, ridge: float, smooth_targets: bool) -> None:
        if not ridge > 0:
            raise InputError(f"Beta expects ridge > 0, got {ridge}.")
        self.ridge, self.smooth_targets = ridge, smooth_targets

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        features = np.stack([*_logarithms(scores), np.ones_like(scores)], axis=1)
        ridge = self.ridge / sum_of(weights, np.ones(len(scores), bool))
        targets = _targets(happened, self.smooth_targets, weights)
        identity = np.array([1.0, 1.0, 0.0])
        kept = np.ones(3, bool)
        theta = logistic_regression(features, targets, identity, ridge, weights)
        while (theta[:2] < 0).any():
            kept[theta[:2].argmin()] = False
            theta = np.zeros(3)
            theta[kept] = logistic_regression(
                features[:, kept], targets, identity[kept], ridge, weights
            )
        return {name: theta[[i]] for i, name in enumerate(("a_", "b_", "c_"))}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        a, b, c = (values[name][:, 0] for name in ("a_", "b_", "c_"))
        log_p, minus_log_rest = _logarithms(scores)
        return sigmoid(a * log_p + b * minus_log_rest + c)


def _logarithms(log_odds: Array) -> tuple[Array, Array]:
    """Return log p and −log(1 − p) of log-odds s: −log(1 + e⁻ˢ) and log(1 + eˢ)."""
    xp = namespace(log_odds)
    tail = xp.log1p(xp.exp(-abs(log_odds)))
    return xp.clip(log_odds, None, 0.0) - tail, xp.clip(log_odds, 0.0, None) + tail
