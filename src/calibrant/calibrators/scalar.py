"""Curves of one number, and the two ways to lift them to K classes.

A :class:`ScalarCurve` learns how often an event happens given a score. :class:`OneVsRest` learns
one such curve per class (is it class k?) and divides by the sum; :class:`TopLabel` learns a single
one (is the predicted class right?) and spreads the rest as before.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import (
    constant,
    log_odds,
    namespace,
    normalized,
    pick,
    softmax,
)
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.predictions import Kind, Predictions

__all__ = ["OneVsRest", "ScalarCurve", "TopLabel", "stacked", "with_confidence"]


# The relative lead that the predicted class keeps: more than float32 rounding, and more than
# ONNX optimizers treat as zero.
_AHEAD = 1e-4


class ScalarCurve(ABC):
    """A curve from a score to the probability of an event, learned from (score, happened?) pairs.

    ``others`` is the number of classes that one event competes with: K − 1 against the rest.
    """

    others: int = 1

    @abstractmethod
    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Learn from float64 scores (n,) and booleans (n,): one-dimensional arrays by name.

        With sample weights every pair counts by its weight, and their sum stands for n.
        """

    @abstractmethod
    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        """Apply it to (n, C) scores, one column per curve; ``values`` holds (C, m) arrays."""


class OneVsRest(Calibrator):
    """q_k = curve_k(p_k), divided by Σ_j q_j; a row of zeros becomes uniform.

    With two classes there is one curve, of class 1, and class 0 has the complement. A curve that
    ``takes`` logits gets log-odds, log p_k / (1 − p_k), in place of p_k.
    """

    takes: ClassVar[Kind] = "probabilities"
    gives: ClassVar[Kind] = "probabilities"
    takes_claims: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True

    @abstractmethod
    def _scalar(self) -> ScalarCurve:
        """Return the curve of one number, with this calibrator's hyper-parameters."""

    def _fit(self, predictions: Predictions) -> Fit:
        scalar, labels = self._scalar(), predictions.labels
        scores = self._columns(predictions.scores.astype(np.float64))
        first, scalar.others = predictions.classes - scores.shape[1], predictions.classes - 1

        def fit_column(c: int) -> dict[str, np.ndarray]:
            happened = labels == first + c
            return scalar.fit(np.ascontiguousarray(scores[:, c]), happened, predictions.weights)

        # Sorting, most of the work, releases the interpreter's lock.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return Fit(stacked(list(pool.map(fit_column, range(scores.shape[1])))))

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        mapped = self._scalar().apply(self._columns(scores), values)
        if int(scores.shape[-1]) > 2:
            return normalized(mapped)
        return namespace(scores).concatenate((1 - mapped, mapped), axis=-1)

    def _columns(self, scores: Array) -> Array:
        """Return one column per curve: K of them, or only class 1 with two classes."""
        columns = _as_given(scores, self.takes)
        return columns[..., 1:] if int(scores.shape[-1]) == 2 else columns


class TopLabel(Calibrator):
    """c' = map(c) for the largest probability c; the others times (1 − c') / (1 − c).

    A probability of 0 counts as ``floor_`` there, half of the smallest that the data can say: a
    class that got no vote of a forest stays possible, and where c = 1 the others share 1 − c'
    equally. A small c' can leave another class
    more probable than the predicted one, whose probability c' is. With ``keep_prediction`` that
    class stays predicted: the others share the rest more evenly, as little as is needed, and c' is
    at least 1/K. Without it predicted class and accuracy may change. A curve that ``takes`` logits
    gets the log-odds of c in place of c. Of claims, c is the probability of "came true", and c' may
    be anything.
    """

    takes: ClassVar[Kind] = "probabilities"
    gives: ClassVar[Kind] = "probabilities"
    keeps_argmax: ClassVar[bool] = True
    takes_claims: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True

    keep_prediction: bool

    @abstractmethod
    def _scalar(self) -> ScalarCurve:
        """Return the curve of one number, with this calibrator's hyper-parameters."""

    def _fit(self, predictions: Predictions) -> Fit:
        scores = predictions.scores.astype(np.float64)
        predicted = scores.argmax(axis=1)
        if self.claims_:
            predicted[:] = 1
        given = pick(_as_given(scores, self.takes), predicted)[:, 0]
        right = predicted == predictions.labels
        return Fit(stacked([self._scalar().fit(given, right, predictions.weights)]))

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        xp = namespace(scores)
        if self.claims_:
            mapped = self._scalar().apply(_as_given(scores, self.takes)[..., 1:], values)
            return xp.concatenate((1 - mapped, mapped), axis=-1)
        predicted = xp.argmax(scores, axis=-1)
        given = pick(_as_given(scores, self.takes), predicted)
        confidence = self._scalar().apply(given, values)
        before = softmax(scores) if self.takes == "logits" else scores
        before = xp.clip(before, values["floor_"], None)
        return with_confidence(before, predicted, confidence, keep=self.keep_prediction)


def with_confidence(before: Array, predicted: Array, confidence: Array, *, keep: bool) -> Array:
    """Return rows with ``confidence``, (n, 1), for the predicted class; others share the rest.

    Their shares are those of ``before``, which is above 0. With ``keep`` the class stays predicted.

    >>> before, confidence = np.array([[0.8, 0.1, 0.1]]), np.array([[0.5]])
    >>> with_confidence(before, np.array([0]), confidence, keep=True)
    array([[0.5 , 0.25, 0.25]])
    """
    xp = namespace(before)
    columns = constant(np.arange(int(before.shape[-1])), before)
    is_top = columns == predicted[..., None]
    shares = _shares(before, is_top)
    if keep:
        confidence = xp.clip(confidence, (1 + _AHEAD) / int(before.shape[-1]), None)
        shares = _evened(shares, is_top, confidence)
    return xp.where(is_top, confidence, (1 - confidence) * shares)


def _as_given(scores: Array, takes: Kind) -> Array:
    """Return the input of each class's curve: log-odds of logits, else the probability."""
    return log_odds(scores) if takes == "logits" else scores


def _evened(shares: Array, is_top: Array, confidence: Array) -> Array:
    """Pull the shares of the remainder towards 1/(K − 1) until no other class is ahead."""
    xp = namespace(shares)
    classes = int(shares.shape[-1])
    if classes == 2:  # The one other class gets all the rest.
        return shares
    equal = 1.0 / (classes - 1)
    largest = xp.amax(xp.where(is_top, 0.0, shares), axis=-1, keepdims=True)
    rest = 1 - confidence
    allowed = (1 - _AHEAD / 2) * confidence / xp.where(rest > 0, rest, 1.0)
    gap = largest - equal
    pull = xp.clip((largest - allowed) / xp.where(gap > 0, gap, 1.0), 0.0, 1.0)
    return shares + pull * (equal - shares)


def _shares(scores: Array, is_top: Array) -> Array:
    """Return the shares of the other classes in the remainder, from scores that are above 0."""
    rest = namespace(scores).where(is_top, 0.0, scores)
    return rest / rest.sum(axis=-1, keepdims=True)


def stacked(curves: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return (C, m) arrays; shorter ones repeat their last value, which changes no curve."""
    result = {}
    for name in curves[0]:
        length = max(len(m[name]) for m in curves)
        rows = [np.pad(m[name], (0, length - len(m[name])), mode="edge") for m in curves]
        result[name] = np.stack(rows)
    return result
