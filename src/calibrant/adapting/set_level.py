"""Estimate accuracy from mean confidence, by a line through copies of a labelled data set.

Damaged data are harder and models get less confident on them, but not enough. Over copies of the
validation data, damaged in different ways and strengths, accuracy and mean confidence lie close to
a line: logit a = α + β logit c, through the point of the validation data itself. A new data set of
the same kind is expected on that line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.charts.numbers import percent, show
from calibrant.distributions import student_quantile
from calibrant.errors import InputError

__all__ = ["SetLine", "SetPoint", "fit_line"]

_LEAST_SETS = 4
_LEAST_RANGE = 0.02  # Of mean confidences, between the least and the most confident set.
_BEYOND = 0.05  # Share of the range by which a new set may be outside of it.


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
    error: float  # Of a copy's accuracy, by the line of the other kinds; and as its mean confidence
    plain_error: float  # claims it.
    sets: tuple[SetPoint, ...]

    def accuracy(self, confidence: float, level: float, rows: int) -> tuple[float, float, float]:
        """Return the accuracy to expect of a set, with its interval; refuse one out of range.

        ``rows`` is the size of the set, whose own accuracy varies by chance: a copy may be larger.
        """
        x = _logit(confidence)
        least, most = _logit(self.low), _logit(self.high)
        room = _BEYOND * (most - least)
        if not least - room <= x <= most + room:
            raise InputError(
                f"The mean confidence of the new data, {percent(confidence)}, is outside the range "
                f"of the copies, {percent(self.low)} to {percent(self.high)}. adapt does not "
                "extrapolate: add copies that are damaged more, or less."
            )
        places = np.array([_logits(point)[0] for point in self.sets])
        count, spread = len(places), float(((places - places[0]) ** 2).sum())
        middle = self.intercept + self.slope * x
        here = _sigmoid(middle)
        chance = 1 / max(rows * here * (1 - here), 0.5)  # Variance of the logit of a share.
        error = math.sqrt(self.spread**2 * (1 + (x - places[0]) ** 2 / spread) + chance)
        half = student_quantile(count - 2, level) * error
        value, low, high = (_sigmoid(middle + end) for end in (0.0, -half, half))
        return value, low, high


def fit_line(sets: Sequence[SetPoint]) -> SetLine:
    """Fit the line of the validation data, which come first, and its copies; or refuse them.

    >>> sets = [SetPoint(str(c), 1000, c, c - 0.1) for c in (0.9, 0.8, 0.7, 0.6)]
    >>> line = fit_line(sets)
    >>> round(line.accuracy(0.75, 0.95, rows=1000)[0], 2)
    0.64
    """
    if len(sets) < _LEAST_SETS:
        raise InputError(
            f"Set-level correction needs at least {_LEAST_SETS} labelled sets, the validation data "
            f"and {_LEAST_SETS - 1} copies of it, got {len(sets)} (--copies FILE …)."
        )
    confidences = [point.confidence for point in sets]
    low, high = min(confidences), max(confidences)
    if high - low < _LEAST_RANGE:
        raise InputError(
            f"All copies have nearly the same mean confidence ({percent(low)} to {percent(high)}), "
            "which determines no line; add copies that are damaged more."
        )
    intercept, slope = _through_the_first(sets)
    if slope <= 0:
        raise InputError(
            "Over the copies the accuracy does not rise with the mean confidence, so a mean "
            "confidence says nothing about a new data set."
        )
    residual = [y - intercept - slope * x for x, y in map(_logits, sets)]
    spread = math.sqrt(sum(r * r for r in residual) / (len(sets) - 2))
    errors = _left_out_errors(sets)
    if errors[0] >= errors[1]:
        raise InputError(
            "The copies do not agree on how accuracy follows from the mean confidence: predicted "
            f"from the other kinds, their accuracy is off by {show(100 * errors[0], 1)} points on "
            f"average, and the mean confidence itself by {show(100 * errors[1], 1)}. Take copies "
            "that are more like the new data."
        )
    return SetLine(intercept, slope, spread, low, high, *errors, tuple(sets))


def _through_the_first(sets: Sequence[SetPoint]) -> tuple[float, float]:
    """Return the least-squares line through the first point, the validation data."""
    x, y = np.array([_logits(point) for point in sets]).T
    steps = float(((x - x[0]) ** 2).sum())
    slope = float(((x - x[0]) * (y - y[0])).sum() / steps) if steps else 1.0
    return float(y[0] - slope * x[0]), slope


def _left_out_errors(sets: Sequence[SetPoint]) -> tuple[float, float]:
    """Return mean errors of the copies' accuracy: by the line of the other kinds, and as claimed.

    The kind of a copy is its name without a number at the end, the strength. Where all are of one
    kind, each copy is left out alone.
    """
    kinds = [_kind(point.name) for point in sets[1:]]
    alone = len(set(kinds)) < 2
    by_line, as_claimed = [], []
    for number, point in enumerate(sets[1:]):
        others = [
            other
            for place, other in enumerate(sets[1:])
            if (place != number if alone else kinds[place] != kinds[number])
        ]
        intercept, slope = _through_the_first([sets[0], *others])
        expected = _sigmoid(intercept + slope * _logits(point)[0])
        by_line.append(abs(expected - point.accuracy))
        as_claimed.append(abs(point.confidence - point.accuracy))
    return float(np.mean(by_line)), float(np.mean(as_claimed))


def _kind(name: str) -> str:
    """Return the name of a copy without its strength.

    >>> _kind("typos-3"), _kind("copies/ocr_5.parquet"), _kind("copy 12")
    ('typos', 'copies/ocr', 'copy')
    """
    return re.sub(r"[-_ ]*\d+(\.\w+)*$", "", name)


def _logits(point: SetPoint) -> tuple[float, float]:
    """Return the logits of confidence and accuracy, kept half an example from 0 and 1."""
    least = 0.5 / point.rows
    inside = (min(max(s, least), 1 - least) for s in (point.confidence, point.accuracy))
    x, y = map(_logit, inside)
    return x, y


def _logit(share: float) -> float:
    share = min(max(share, 1e-9), 1 - 1e-9)
    return math.log(share / (1 - share))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
