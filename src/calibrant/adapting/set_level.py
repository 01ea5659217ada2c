"""The accuracy of a data set from its mean confidence, learned from copies of a labelled one.

Damaged data are harder and models get less sure of them, but not enough. Over copies of the
validation data, damaged in different ways and strengths, accuracy and mean confidence lie close to
a line: logit a = α + β logit c. A new data set of the same kind is expected on that line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.charts.numbers import percent
from calibrant.distributions import student_quantile
from calibrant.errors import InputError

__all__ = ["SetLine", "SetPoint", "fit_line"]

_LEAST_SETS = 4
_LEAST_RANGE = 0.02  # Of mean confidences, between the least and the most confident set.
_BEYOND = 0.05  # Share of the range by which a new set may lie outside of it.


class SetPoint(NamedTuple):
    """One labelled data set: its name, rows, mean confidence and accuracy."""

    name: str
    rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class SetLine:
    """The line through the sets, in logits; ``spread`` is the residual standard deviation."""

    intercept: float
    slope: float
    spread: float
    low: float  # The least and the largest mean confidence that it was fitted on.
    high: float
    sets: tuple[SetPoint, ...]

    def accuracy(self, confidence: float, level: float) -> tuple[float, float, float]:
        """Return the accuracy to expect of a set, with its interval; refuse one out of range."""
        x = _logit(confidence)
        least, most = _logit(self.low), _logit(self.high)
        room = _BEYOND * (most - least)
        if not least - room <= x <= most + room:
            raise InputError(
                f"The mean confidence of the new data, {percent(confidence)}, is outside of the "
                f"range of the copies, {percent(self.low)} to {percent(self.high)}: what lies "
                "beyond is not guessed. Add copies that are damaged more, or less."
            )
        places = np.array([_logit(point.confidence) for point in self.sets])
        count, spread = len(places), float(((places - places.mean()) ** 2).sum())
        error = self.spread * math.sqrt(1 + 1 / count + (x - places.mean()) ** 2 / spread)
        half = student_quantile(count - 2, level) * error
        middle = self.intercept + self.slope * x
        value, low, high = (_sigmoid(middle + end) for end in (0.0, -half, half))
        return value, low, high


def fit_line(sets: Sequence[SetPoint]) -> SetLine:
    """Fit the line by least squares, or refuse sets that determine none.

    >>> sets = [SetPoint(str(c), 1000, c, c - 0.1) for c in (0.9, 0.8, 0.7, 0.6)]
    >>> line = fit_line(sets)
    >>> round(line.accuracy(0.75, 0.95)[0], 2)
    0.64
    """
    if len(sets) < _LEAST_SETS:
        raise InputError(
            f"Set-level correction needs at least {_LEAST_SETS} labelled sets, the validation data "
            f"and {_LEAST_SETS - 1} copies of it, got {len(sets)} (--copies FILE …)."
        )
    x = np.array([_logit(point.confidence) for point in sets])
    y = np.array([_logit(_kept_inside(point)) for point in sets])
    confidences = [point.confidence for point in sets]
    low, high = min(confidences), max(confidences)
    if high - low < _LEAST_RANGE:
        raise InputError(
            f"All copies have nearly the same mean confidence ({percent(low)} to {percent(high)}), "
            "which determines no line; add copies that are damaged more."
        )
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    intercept = float(y.mean() - slope * x.mean())
    if slope <= 0:
        raise InputError(
            "Over the copies the accuracy does not rise with the mean confidence, so a mean "
            "confidence says nothing about a new data set."
        )
    residual = y - intercept - slope * x
    spread = math.sqrt(float((residual**2).sum()) / (len(x) - 2))
    return SetLine(intercept, slope, spread, low, high, tuple(sets))


def _kept_inside(point: SetPoint) -> float:
    """Return the accuracy, pulled half an example from 0 and 1, where logits end."""
    return min(max(point.accuracy, 0.5 / point.rows), 1 - 0.5 / point.rows)


def _logit(share: float) -> float:
    share = min(max(share, 1e-9), 1 - 1e-9)
    return math.log(share / (1 - share))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
