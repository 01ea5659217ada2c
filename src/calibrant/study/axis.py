"""An axis of a chart: where values lie between 0 and 1, and the round steps beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Axis", "fit_axis", "round_steps"]


@dataclass(frozen=True)
class Axis:
    """Data to the unit interval; steps are values with their words."""

    low: float
    high: float
    steps: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Where a value lies; what is outside comes to the edge."""
        value = math.log10(value) if self.logarithmic else value
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def fit_axis(values: Sequence[float], halves: Sequence[float], logarithmic: bool = False) -> Axis:
    """An axis that holds all values, and their intervals as far as these do not dwarf them.

    >>> [words for _, words in fit_axis([0.2, 0.4], [0.01, float("nan")]).steps]
    ['0.20', '0.25', '0.30', '0.35', '0.40']
    """
    if logarithmic:
        logs = [math.log10(value) for value in values]
        exact = tuple((value, f"{value:g}") for value in sorted(set(values)))
        return Axis(min(logs) - 0.1, max(logs) + 0.1, exact, True)
    room = 1.5 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
    known = [0.0 if math.isnan(half) else min(half, room) for half in halves]
    low = min(value - half for value, half in zip(values, known, strict=True))
    high = max(value + half for value, half in zip(values, known, strict=True))
    if min(values) >= 0:  # No share is below 0, whatever its interval.
        low = max(low, 0.0)
    margin = 0.05 * (high - low) or 0.05
    steps = round_steps(low - margin, high + margin)
    digits = max(0, -math.floor(math.log10(steps[1] - steps[0]) + 1e-9))
    words = tuple((step, f"{step:.{digits}f}") for step in steps)
    return Axis(low - margin, high + margin, words)


def round_steps(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round values between ``low`` and ``high``.

    >>> round_steps(0.42, 0.53)
    [0.42, 0.44, 0.46, 0.48, 0.5, 0.52]
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]
