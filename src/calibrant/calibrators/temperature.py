"""Temperature scaling: one number that divides all logits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from calibrant.arrays import Array
from calibrant.calibrators.base import CalibrationWarning, Calibrator, Fit
from calibrant.calibrators.newton import Optimum, best_inverse_temperature
from calibrant.predictions import Predictions

__all__ = ["Temperature"]


class Temperature(Calibrator):
    """p = softmax(l / T), with T > 0 that minimises the validation NLL.

    Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017. The first
    map to try: one number, so it cannot overfit; argmax and accuracy stay. It cannot repair
    classes or regions that are wrong in different directions.

    The optimum is found by :mod:`calibrant.calibrators.newton`. Where the NLL has no minimum the
    result is finite, with a warning: all right, T near 0; scores without information, large T.

    >>> p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> t = Temperature().fit(p)
    >>> round(t.temperature_, 4)
    1.8205
    >>> t.transform(p).probabilities()[0].round(4)
    array([0.75, 0.25])
    """

    name = "temperature"
    keeps_argmax = True

    temperature_: float

    def _fit(self, predictions: Predictions) -> Fit:
        logits, labels = predictions.scores, predictions.labels
        best = best_inverse_temperature(logits, labels)
        warn_if_unbounded(best)
        beta = 1.0 if best.at.spread == 0 else best.beta
        return Fit({"temperature_": 1 / beta}, best.nll_at_one, best.nll, {"passes": best.passes})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return scores / values["temperature_"]


def warn_if_unbounded(best: Optimum, where: str = "") -> None:
    """Warn if no finite temperature is best."""
    if best.at.spread == 0:
        reason = "all logits of an example are equal, so every temperature is as good; T = 1"
    elif best.at.wrong == 0:
        reason = (
            f"every prediction is right, so the NLL falls as T goes to 0; stopped at "
            f"T = {1 / best.beta:.3g}. Fit on more or harder examples"
        )
    elif best.at.first > 0 and best.beta * best.at.spread < 1.001e-3:
        reason = (
            f"the scores say nothing about the labels, or the opposite, so the NLL falls as T "
            f"grows; stopped at T = {1 / best.beta:.3g}. Check that labels and columns match"
        )
    else:
        return
    warnings.warn(f"Temperature{where}: {reason}.", CalibrationWarning, stacklevel=4)
