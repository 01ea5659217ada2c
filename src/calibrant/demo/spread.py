"""A number over seeds: its mean, and how far it would move with other seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.errors import InputError

__all__ = ["MOST_SEEDS", "Spread", "spread"]

# 97.5 % quantiles of Student's t for 1 … 9 degrees of freedom.
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
MOST_SEEDS = len(_QUANTILES) + 1


class Spread(NamedTuple):
    """A mean and half of its 95 % interval, which is NaN for one seed."""

    mean: float
    half: float

    @property
    def stands_out(self) -> bool:
        """Whether 0 is outside the interval; one seed never says so."""
        return abs(self.mean) > self.half

    def show(self, scale: float, digits: int) -> str:
        """The mean ± half of the interval.

        >>> Spread(0.8213, 0.0124).show(100, 1), Spread(0.8213, float("nan")).show(100, 1)
        ('82.1 ± 1.2', '82.1')
        """
        if np.isnan(self.mean):
            return "–"
        mean = f"{scale * self.mean:.{digits}f}"
        return mean if np.isnan(self.half) else f"{mean} ± {scale * self.half:.{digits}f}"


def spread(values: Sequence[float]) -> Spread:
    """Mean and t₀.₉₇₅(n − 1) s / √n (Student 1908) of n seeds.

    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, half=2.484...)
    """
    n = len(values)
    if not 1 <= n <= MOST_SEEDS:
        raise InputError(f"A spread is over 1 to {MOST_SEEDS} seeds, got {n}.")
    if n == 1:
        return Spread(float(values[0]), float("nan"))
    half = _QUANTILES[n - 2] * np.std(values, ddof=1) / np.sqrt(n)
    return Spread(float(np.mean(values)), float(half))
