"""A correction on top of a fitted calibrator, for a data set that differs from its validation data.

``calibrant adapt`` finds it. It is a part of the calibrator's learned values, so it is saved,
loaded and exported with them. There are two, which may come together:

- ``correction_bias_`` (K,) is added to the log-probabilities: p'_k ∝ p_k exp b_k. With b_k the
  logarithm of a class's new share over its old share, this is Bayes' rule for other class
  frequencies (Saerens, Latinne, Decaestecker 2002). It may change predictions.
- ``correction_shift_`` is added to the log-odds of the predicted class, which stays predicted:
  where the shift would put it behind the second class, both get nearly the same probability.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import (
    FLOOR,
    constant,
    log_probabilities,
    namespace,
    softmax,
)
from calibrant.errors import InputError
from calibrant.predictions import Kind

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

__all__ = ["BIAS", "CORRECTIONS", "SHIFT", "check_correction", "correct", "corrected"]

BIAS, SHIFT = "correction_bias_", "correction_shift_"
CORRECTIONS = frozenset((BIAS, SHIFT))
# The least lead of the predicted class, in log-odds: more than rounding in float32.
_AHEAD = 1e-4


def corrected(
    calibrator: Calibrator,
    *,
    bias: np.ndarray | None = None,
    shift: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Calibrator:
    """Return a copy of a fitted calibrator with this correction in place of any earlier one.

    ``about`` is kept in ``fitted_on_["adapted"]``. Without a bias and a shift, the copy has none.

    >>> from calibrant import Predictions, Temperature
    >>> p = Predictions.from_probabilities([[0.8, 0.2]] * 5, [0, 0, 0, 0, 1])
    >>> fitted = Temperature().fit(p)
    >>> corrected(fitted, bias=np.log([0.25, 1.0])).transform(p).scores[0].round(3)
    array([0.5, 0.5])
    >>> corrected(fitted, shift=1.0).transform(p).scores[0].round(3)
    array([0.916, 0.084])
    """
    learned = {k: v for k, v in calibrator.learned().items() if k not in CORRECTIONS}
    if bias is not None:
        learned[BIAS] = np.asarray(bias, np.float64)
    if shift is not None:
        learned[SHIFT] = float(shift)
    check_correction(learned, calibrator.n_classes_)
    result = copy.copy(calibrator)
    for name in CORRECTIONS:
        vars(result).pop(name, None)
    fell_back, fitted_on = calibrator.fell_back_, dict(calibrator.fitted_on_)
    result.take_learned(learned)
    fitted_on.pop("adapted", None)
    result.fell_back_ = fell_back
    result.fitted_on_ = {**fitted_on, **({"adapted": dict(about)} if about is not None else {})}
    return result


def check_correction(learned: Mapping[str, Any], classes: int) -> None:
    """Require a finite number for each class, and one shift."""
    for name, shape in ((BIAS, (classes,)), (SHIFT, ())):
        value = np.asarray(learned.get(name, np.zeros(shape)), np.float64)
        if value.shape != shape or not np.isfinite(value).all():
            raise InputError(
                f"A correction needs finite numbers of shape {shape} as {name}, got {value.shape}."
            )


def correct(scores: Array, kind: Kind, values: Mapping[str, Any]) -> Array:
    """Apply the corrections among ``values`` to (n, K) scores that a calibrator gave."""
    logits = scores if kind == "logits" else log_probabilities(scores, values.get("floor_", FLOOR))
    if BIAS in values:
        logits = logits + values[BIAS]
    if SHIFT in values:
        logits = _shifted(logits, values[SHIFT])
    return logits if kind == "logits" else softmax(logits)


def _shifted(logits: Array, shift: Any) -> Array:
    """Add to the largest logit, and so to the log-odds of its class; it stays the largest."""
    xp = namespace(logits)
    columns = constant(np.arange(int(logits.shape[-1])), logits)
    is_top = columns == xp.argmax(logits, axis=-1)[..., None]
    second = xp.amax(xp.where(is_top, -np.inf, logits), axis=-1, keepdims=True)
    first = xp.amax(logits, axis=-1, keepdims=True)
    # Classes as good as tied are left as they are.
    least = xp.where(first - second > _AHEAD, second + _AHEAD, first)
    return xp.where(is_top, xp.maximum(first + shift, least), logits)
