"""Temperature scaling: one number divides all logits; ensemble temperature scaling mixes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import softmax
from calibrant.calibrators.base import CalibrationWarning, Calibrator, Fit
from calibrant.calibrators.faultless import most_confidence, stopped, untied
from calibrant.calibrators.newton import Optimum, best_inverse_temperature
from calibrant.predictions import Predictions

__all__ = ["EnsembleTemperature", "Temperature", "warn_if_unbounded"]

_CHUNK = 1 << 18
_LEAST_INFORMED = 1e-3
_UNINFORMED = (
    "the scores say nothing about the labels, or the opposite, so the NLL falls as T grows"
)
_ACROSS_HALF = (
    "no temperature moves a confidence from one side of 0.5 to the other, which these need, so the "
    "NLL falls as T grows"
)
_OTHERS = "Use platt, beta or quadratic-top-label, or check"


class Temperature(Calibrator):
    """p = softmax(l / T), with T > 0 that minimises the validation NLL.

    Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017. The first
    calibrator to try: one number, so it cannot overfit; argmax and accuracy stay. It cannot repair
    classes or regions that are wrong in different directions.

    The optimum is found by :mod:`calibrant.calibrators.newton`. Where the NLL has no minimum the
    result is finite, with a warning. If all n predictions are right, T stops where the mean
    confidence is (n + 1) / (n + 2), or at 1 if it is higher already
    (:mod:`calibrant.calibrators.faultless`). If the scores have no information, T is large.

    >>> p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> t = Temperature().fit(p)
    >>> round(t.temperature_, 4)
    1.8205
    >>> t.transform(p).probabilities()[0].round(4)
    array([0.75, 0.25])
    """

    name = "temperature"
    keeps_argmax = True
    takes_claims = True
    takes_weights = True

    temperature_: float

    def _fit(self, predictions: Predictions) -> Fit:
        best = best_temperature(predictions, claims=bool(self.claims_))
        beta = 1.0 if best.at.spread == 0 else best.beta
        return Fit({"temperature_": 1 / beta}, best.nll_at_one, best.nll, {"passes": best.passes})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return scores / values["temperature_"]


def best_temperature(predictions: Predictions, *, claims: bool = False) -> Optimum:
    """Return the inverse temperature with the least NLL, and warn if no finite one is best."""
    logits, labels, weights = predictions.scores, predictions.labels, predictions.weights
    best = best_inverse_temperature(logits, labels, weights=weights)
    best = stopped(best, logits, labels, weights)
    warn_if_unbounded(best, lambda: int(untied(logits).sum()), claims)
    return best


def warn_if_unbounded(best: Optimum, decided: Callable[[], int], claims: bool) -> None:
    """Warn if no finite temperature is best; ``decided`` counts rows with one highest score."""
    if best.at.spread == 0:
        reason = "all logits of an example are equal, so every temperature is as good; T = 1"
    elif best.at.wrong == 0:
        n = decided()
        reason = (
            f"every prediction is right, so the NLL falls as T goes to 0; T = {1 / best.beta:.3g}, "
            f"as {n} right prediction{'s support' if n != 1 else ' supports'} a mean confidence of "
            f"{most_confidence(n):.4g}. "
            "Fit on more or harder examples"
        )
    elif best.at.first > 0 and best.beta * best.at.spread < 1.001e-3:
        reason = (
            f"{_ACROSS_HALF if claims else _UNINFORMED}; stopped at T = {1 / best.beta:.3g}. "
            f"{_OTHERS if claims else 'Check'} that labels and columns match"
        )
    else:
        return
    warnings.warn(f"Temperature: {reason}.", CalibrationWarning, stacklevel=4)


class EnsembleTemperature(Calibrator):
    """p = w₁ softmax(l / T) + w₂ softmax(l) + w₃ / K, with w ≥ 0 and w₁ + w₂ + w₃ = 1.

    Zhang, Kailkhura, Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020: T as in temperature scaling, then w by NLL (convex in
    w). Four numbers; keeps the argmax. The uniform part bounds the cost of confident mistakes.

    >>> p = Predictions.from_logits([[9.0, 0.0]] * 6 + [[1.0, 0.0]] * 4, [0] * 5 + [1] + [0] * 4)
    >>> ensemble = EnsembleTemperature().fit(p)
    >>> ensemble.fitted_on_["nll_after"] < ensemble.fitted_on_["nll_before"]
    True
    """

    name = "ensemble-temperature"
    gives = "probabilities"
    keeps_argmax = True
    takes_weights = True

    temperature_: float
    weights_: np.ndarray

    def _fit(self, predictions: Predictions) -> Fit:
        logits, best = predictions.scores, best_temperature(predictions)
        beta = 1.0 if best.at.spread == 0 else best.beta
        chosen = _label_probabilities(logits, predictions.labels, beta)
        weights = _distinct(_mixture_weights(chosen, predictions.weights))
        return Fit({"temperature_": 1 / beta, "weights_": weights})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        weights = values["weights_"]
        scaled = softmax(scores / values["temperature_"])
        uniform = weights[2] / int(scores.shape[-1])
        return weights[0] * scaled + weights[1] * softmax(scores) + uniform


def _distinct(weights: np.ndarray) -> np.ndarray:
    """Limit the uniform part to 1 − 1e-3, because alone it would make all classes tie."""
    excess = max(0.0, float(weights[2]) - (1 - _LEAST_INFORMED))
    return weights + excess * np.array([0, 1, -1])


def _label_probabilities(logits: np.ndarray, labels: np.ndarray, beta: float) -> np.ndarray:
    """Return p_y under each of the three components, (n, 3)."""
    n, classes = logits.shape
    result = np.full((n, 3), 1 / classes)
    size = max(1, _CHUNK // classes)
    for start in range(0, n, size):
        part = slice(start, start + size)
        wide, rows = logits[part].astype(np.float64), np.arange(len(labels[part]))
        for column, scale in enumerate((beta, 1.0)):
            result[part, column] = softmax(scale * wide)[rows, labels[part]]
    return result


def _mixture_weights(chosen: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Find w on the simplex that minimises the convex f(w) = −mean log Σ_j w_j p_ij.

    ``counts`` are the sample weights of the rows, if they have any.

    Each Newton step moves towards the minimum of the quadratic model on the simplex, halved until
    f falls, so that a weight can become exactly 0.

    >>> _mixture_weights(np.array([[0.9, 0.5, 0.5], [0.9, 0.5, 0.5]]))
    array([1., 0., 0.])
    """
    weights = np.full(3, 1 / 3)
    share = np.full(len(chosen), 1 / len(chosen)) if counts is None else counts / counts.sum()
    loss = _loss(chosen, weights, share)
    for _ in range(100):
        ratio = chosen / (chosen @ weights)[:, None]
        gradient, hessian = -(share @ ratio), (ratio.T * share) @ ratio
        step = _model_minimum(weights, gradient, hessian) - weights
        if -float(gradient @ step) < 1e-14:
            break
        new = _loss(chosen, weights + step, share)
        while new > loss + 1e-4 * float(gradient @ step) and np.abs(step).max() > 1e-12:
            step /= 2
            new = _loss(chosen, weights + step, share)
        if new >= loss:
            break
        weights, loss = weights + step, new
    return weights


def _loss(chosen: np.ndarray, weights: np.ndarray, share: np.ndarray) -> float:
    with np.errstate(divide="ignore"):  # Infinite if the mixture gives a label probability 0.
        return -float(share @ np.log(chosen @ weights))


def _model_minimum(w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """Return the v on the simplex with the least gᵀ(v − w) + ½ (v − w)ᵀ H (v − w), over 7 faces."""
    best, lowest = w, 0.0
    for face in range(1, 8):
        kept = np.flatnonzero([face >> j & 1 for j in range(3)])
        system = np.ones((len(kept) + 1, len(kept) + 1))
        system[:-1, :-1] = hessian[np.ix_(kept, kept)]
        system[-1, -1] = 0
        right = np.append((hessian @ w - gradient)[kept], 1.0)
        v = np.zeros(3)
        v[kept] = np.linalg.lstsq(system, right, rcond=None)[0][:-1]
        if (v < 0).any() or abs(v.sum() - 1) > 1e-9:
            continue
        v /= v.sum()
        value = float(gradient @ (v - w) + (v - w) @ hessian @ (v - w) / 2)
        if value < lowest:
            best, lowest = v, value
    return best
