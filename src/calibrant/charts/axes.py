"""Axes fitted to data: shares, percent from 0, estimates with intervals, ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from calibrant.charts.chart import Axis
from calibrant.charts.numbers import edge

__all__ = ["fit_axis", "round_steps", "share_axis", "value_axis"]

_MOST_TICKS = 8
_CLOSEST = 0.08  # Of the axis, between two ticks at the values themselves.
_ROUNDING = 1e-9  # Relative: values closer than this count as equal.


def share_axis(label: str, parts: int = 5) -> Axis:
    """Return an axis from 0 to 1.

    >>> share_axis("Confidence", 2).ticks
    ((0.0, '0'), (0.5, '0.5'), (1.0, '1'))
    """
    return Axis(label, 0, 1, tuple((k / parts, edge(k / parts)) for k in range(parts + 1)))


def value_axis(label: str, largest: float, least: float = 1e-6) -> Axis:
    """Return an axis from 0 to the round value that reaches ``largest``, and at least ``least``.

    >>> value_axis("ECE", 0.37).ticks[-1]
    (0.4, '0.4')
    """
    largest = max(largest, least)
    step = _round_step(largest / 5, (1, 2, 2.5, 5, 10))
    ticks = [float(f"{k * step:.12g}") for k in range(math.ceil(largest / step - 1e-9) + 1)]
    return Axis(label, 0, ticks[-1], tuple((tick, f"{tick:g}") for tick in ticks))


def fit_axis(
    label: str,
    values: Sequence[float],
    halves: Sequence[float] = (),
    *,
    logarithmic: bool = False,
    at_values: bool = False,
) -> Axis:
    """Fit an axis to all values, and to intervals that do not dwarf them.

    ``at_values`` puts the ticks at the values if these are few and apart.

    >>> [words for _, words in fit_axis("ECE", [0.2, 0.4], [0.01, float("nan")]).ticks]
    ['0.20', '0.25', '0.30', '0.35', '0.40']
    >>> [words for _, words in fit_axis("Depth", [1, 2, 3], at_values=True).ticks]
    ['1', '2', '3']
    """
    if logarithmic:
        return _logarithmic(label, values)
    low, high = _range(values, halves or [0.0] * len(values))
    distinct = sorted(set(values))
    if at_values and _apart(distinct, high - low):
        return Axis(label, low, high, tuple((value, f"{value:g}") for value in distinct))
    if min(values) >= 0 and not at_values:  # No share is below 0; lines need room to move aside.
        low = max(low, 0.0)
    steps = round_steps(low, high)
    digits = max(0, -math.floor(math.log10(steps[1] - steps[0]) + 1e-9))
    return Axis(label, low, high, tuple((step, f"{step:.{digits}f}") for step in steps))


def _range(values: Sequence[float], halves: Sequence[float]) -> tuple[float, float]:
    known = [0.0 if math.isnan(half) else half for half in halves]
    spread = max(values) - min(values)
    room = max(0.5 * spread, 2 * median(known)) or 0.1 * abs(values[0]) or 1.0
    known = [min(half, room) for half in known]
    low = min(value - half for value, half in zip(values, known, strict=True))
    high = max(value + half for value, half in zip(values, known, strict=True))
    if min(values) >= 0:  # Whatever the interval of a share.
        low = max(low, 0.0)
    scale, width = max(abs(low), abs(high)), high - low
    margin = 0.05 * (width if width > _ROUNDING * scale else scale or 1.0)
    return low - margin, high + margin


def _apart(distinct: Sequence[float], width: float) -> bool:
    gaps = [after - before for before, after in pairwise(distinct)]
    return len(distinct) <= _MOST_TICKS and min(gaps, default=width) >= _CLOSEST * width


def _logarithmic(label: str, values: Sequence[float]) -> Axis:
    """Fit a logarithmic axis: ticks at few round values, else at 1, 2 and 5 times powers of ten."""
    logs = [math.log10(value) for value in values]
    margin = max(0.06 * (max(logs) - min(logs)), 0.04)
    low, high = min(logs) - margin, max(logs) + margin
    ticks = sorted(set(values))
    if len(ticks) > _MOST_TICKS or any(tick != float(f"{tick:.2g}") for tick in ticks):
        powers = range(math.floor(low), math.ceil(high) + 1)
        rough = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        ticks = [tick for tick in rough if low <= math.log10(tick) <= high]
    if len(ticks) > _MOST_TICKS:
        ticks = [tick for tick in ticks if f"{tick:e}".startswith("1.0")]
    return Axis(label, 10**low, 10**high, tuple((tick, f"{tick:g}") for tick in ticks), True)


def round_steps(low: float, high: float, wanted: int = 6) -> list[float]:
    """Return round values between ``low`` and ``high``.

    >>> round_steps(0.42, 0.53)
    [0.42, 0.44, 0.46, 0.48, 0.5, 0.52]
    """
    step = _round_step((high - low) / wanted, (1, 2, 5, 10))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _round_step(rough: float, factors: Sequence[float]) -> float:
    """Return the smallest round number that is at least ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in factors if factor * power >= rough * (1 - 1e-9))
