"""A number over seeds: its mean, and how far it would move with other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.distributions import student_quantile
from calibrant.errors import InputError
from calibrant.report.numbers import DASH

__all__ = ["Estimate", "estimate", "show"]


class Estimate(NamedTuple):
    """A mean of ``n`` values and half of its 95 % interval, NaN where one value says nothing."""

    mean: float
    half: float
    n: int

    def show(self, digits: int, *, signed: bool = False) -> str:
        """The mean ± half of the interval.

        >>> Estimate(0.8213, 0.0124, 3).show(3), Estimate(-0.5, math.nan, 1).show(1, signed=True)
        ('0.821 ± 0.012', '−0.5')
        """
        mean = show(self.mean, digits)
        if signed and self.mean > 0 and float(f"{self.mean:.{digits}f}") != 0:
            mean = "+" + mean
        return mean if math.isnan(self.half) else f"{mean} ± {show(self.half, digits)}"


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and t₀.₉₇₅(n − 1) s / √n (Student 1908); a NaN or an infinity leaves no interval.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.484..., n=3)
    """
    n = len(values)
    if not n:
        raise InputError("An estimate needs at least one value, got none.")
    mean = float(np.mean(values))
    if n == 1 or not math.isfinite(mean):
        return Estimate(mean, math.nan, n)
    return Estimate(mean, student_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n), n)


def show(value: float, digits: int) -> str:
    """A number with a real minus; a dash for what is none.

    >>> show(-0.25, 1), show(math.nan, 1), show(math.inf, 1), show(-0.001, 1)
    ('−0.2', '–', '∞', '0.0')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.removeprefix("-")
