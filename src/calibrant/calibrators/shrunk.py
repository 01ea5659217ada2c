"""Platt scaling per label, pulled towards the curve that all labels share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import log_odds, namespace, normalized, sigmoid
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.logistic import logistic_regression, root_mean_square
from calibrant.calibrators.transformation import ABOUT
from calibrant.predictions import Kind, Predictions

__all__ = ["ShrunkPlatt"]

_RIDGE = 1e-9
_EXCEPTIONS = 3.0
_MOST = 1e8  # The precision at which a label has the curve of all labels.


class ShrunkPlatt(Calibrator):
    """q_k = sigmoid(a_k s_k + b_k), s_k the log-odds of label k; rare labels share a curve.

    Every label has its own slope and intercept, and a normal prior around those of all
    labels together: (a_k, b_k) ~ N((a, b), diag τ²). How far labels really differ, τ², is estimated
    by DerSimonian & Laird 1986, from the labels' own fits and their standard errors; it is 0 where
    chance explains all differences. A label with many examples keeps its own curve, a rare one gets
    nearly the shared one, and an unseen one gets exactly that.

    It is made for claims about labels: multi-label predictions, or top labels by predicted label.
    Of the scores of K classes it is :class:`Platt` per class, with the same prior.

    >>> from calibrant import Claims
    >>> p = np.tile([[0.9, 0.6], [0.2, 0.1]], (50, 1))
    >>> y = np.tile([[1, 1], [0, 0], [1, 0], [0, 0]], (25, 1))
    >>> claims = Claims.from_multi_label(p, y, label_names=["a", "b"])
    >>> ShrunkPlatt().fit(claims).coefficients_.shape  # Two labels, and the shared curve.
    (3, 2)
    """

    name = "shrunk-platt"
    takes: ClassVar[Kind] = "logits"
    gives: ClassVar[Kind] = "probabilities"
    takes_claims: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    reads_about: ClassVar[bool] = True

    coefficients_: np.ndarray  # slope and intercept of each label; in the last row, of all
    spread_: np.ndarray  # τ of slopes and intercepts

    def _fit(self, predictions: Predictions) -> Fit:
        odds, happened, label, count = self._events(predictions)
        each = predictions.weights
        if each is not None:
            each = np.repeat(each, len(odds) // len(predictions))
        scale = max(root_mean_square(odds, each), 1e-300)
        features = np.stack([odds / scale, np.ones_like(odds)], axis=1)
        shared = logistic_regression(features, happened, np.array([scale, 0.0]), _RIDGE, each)
        counts = np.ones(len(odds)) if each is None else each
        order = np.argsort(label, kind="stable")
        parts = np.split(order, np.searchsorted(label[order], np.arange(1, count)))
        columns = [(features[rows], happened[rows], counts[rows]) for rows in parts]
        own = [_difference(*part, shared) for part in columns]
        spread = np.array([_spread([(d[j], v[j]) for d, v in own]) for j in range(2)])
        precision = np.minimum(1 / np.maximum(spread**2, 1 / _MOST), _MOST)
        pulled = [_fitted(*part, shared, precision) for part in columns]
        table = np.array([*pulled, shared]) / np.array([scale, 1.0])
        return Fit({"coefficients_": table, "spread_": spread / np.array([scale, 1.0])})

    def _events(self, p: Predictions) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Return log-odds, whether it happened and the label of each event, and how many labels."""
        odds = log_odds(p.scores.astype(np.float64))
        if p.classes == 2:
            about = p.groups.get(ABOUT, np.zeros(len(p), np.int64))
            return odds[:, 1], (p.labels == 1).astype(float), about, int(about.max(initial=0)) + 1
        happened = p.labels[:, None] == np.arange(p.classes)
        label = np.broadcast_to(np.arange(p.classes), odds.shape)
        return odds.ravel(), happened.ravel().astype(float), label.ravel(), p.classes

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        odds, table = log_odds(scores), values["coefficients_"]
        if int(scores.shape[-1]) > 2:
            return normalized(sigmoid(odds * table[:-1, 0] + table[:-1, 1]))
        rows = table[values[ABOUT]] if ABOUT in values else table[:1]
        mapped = sigmoid(odds[..., 1:] * rows[:, :1] + rows[:, 1:])
        return namespace(scores).concatenate((1 - mapped, mapped), axis=-1)


def _fitted(
    features: np.ndarray,
    happened: np.ndarray,
    counts: np.ndarray,
    shared: np.ndarray,
    precision: np.ndarray,
) -> np.ndarray:
    """Return the slope and intercept of one label under its prior."""
    n = float(counts.sum())
    if not n:
        return shared
    return logistic_regression(features, happened, shared, precision / n + _RIDGE, counts)


def _difference(
    features: np.ndarray, happened: np.ndarray, counts: np.ndarray, shared: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the own curve of one label is from the shared one, and the variances.

    A label that always or never came true is infinitely far; half an exception is added to it
    (Haldane 1956), and its slope stays unknown. It says nothing, with infinite variances, where
    chance explains it: where the shared curve expects fewer than three exceptions, of which there
    is then none in 5 % of samples and more.
    """
    n, shapeless = float(counts.sum()), np.array([_MOST, 0.0])
    one_sided = len(set(happened.tolist())) < 2  # Or there is no event at all.
    if one_sided and counts @ abs(happened - sigmoid(features @ shared)) < _EXCEPTIONS:
        return np.zeros(2), np.full(2, np.inf)
    if one_sided:
        theta = _fitted(features, abs(happened - 0.5 / n), counts, shared, shapeless)
    else:
        theta = _fitted(features, happened, counts, shared, np.zeros(2))
    q = sigmoid(features @ theta)
    hessian = (features.T * (counts * q * (1 - q))) @ features + np.diag(np.full(2, n * _RIDGE))
    if one_sided:
        return theta - shared, np.array([np.inf, 1 / hessian[1, 1]])
    return theta - shared, np.diag(np.linalg.inv(hessian))


def _spread(differences: list[tuple[float, float]]) -> float:
    """Return τ of labels: their differences from the shared curve, beyond their standard errors."""
    known = np.array([(d, v) for d, v in differences if np.isfinite(v) and v > 0]).reshape(-1, 2)
    if len(known) < 2:
        return 0.0
    weights = 1 / known[:, 1]
    beyond = float((weights * known[:, 0] ** 2).sum()) - (len(known) - 1)
    unit = weights.sum() - (weights**2).sum() / weights.sum()
    return float(np.sqrt(max(0.0, beyond / max(float(unit), 1e-300))))
