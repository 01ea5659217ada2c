"""Figures as data, with their axes: drawn on the page, and by matplotlib for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["FEW", "Axis", "Curve", "Figure", "Panel", "Place", "axes_of", "fit_axis", "round_steps"]

FEW = 8  # Curves whose intervals and leaders stay legible.
_MOST_STEPS = 8


@dataclass(frozen=True)
class Place:
    """One estimate of a curve or a cloud, with its intervals."""

    x: float
    y: float
    x_half: float = math.nan
    y_half: float = math.nan


@dataclass(frozen=True)
class Curve:
    """The places of one method; a single place is a point."""

    label: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Panel:
    """A pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    logarithmic: bool = False
    critical_difference: float = math.nan  # Of ranks: what is further from the best is worse

    @property
    def whiskers(self) -> bool:
        """Whether intervals are drawn; with many lines they would cover each other."""
        return not self._lines or len(self.curves) <= FEW

    def aside(self, number: int) -> float:
        """Return by how many steps a curve moves sideways, so that whiskers do not overlap."""
        if self._lines and len(self.curves) <= FEW:
            return number - (len(self.curves) - 1) / 2
        return 0.0

    @property
    def _lines(self) -> bool:
        return any(len(curve.places) > 1 for curve in self.curves)


@dataclass(frozen=True)
class Figure:
    """One or more panels side by side; ``kind`` is "points", "lines" or "ranks"."""

    name: str
    title: str
    unit: str
    kind: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Axis:
    """A scale from data to the unit interval; steps are values with their words."""

    low: float
    high: float
    steps: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Map a value to [0, 1]; values outside go to the edge."""
        if self.logarithmic:
            value = math.log10(value) if value > 0 else -math.inf
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value on the axis."""
        return (10**self.low, 10**self.high) if self.logarithmic else (self.low, self.high)


def axes_of(panel: Panel) -> tuple[Axis, Axis]:
    """Fit the axes of a panel that has places: across and up."""
    places = [place for curve in panel.curves for place in curve.places]
    across = fit_axis([p.x for p in places], [p.x_half for p in places], panel.logarithmic)
    halves = [p.y_half if panel.whiskers else math.nan for p in places]
    return across, fit_axis([p.y for p in places], halves)


def fit_axis(values: Sequence[float], halves: Sequence[float], logarithmic: bool = False) -> Axis:
    """Fit an axis to all values, and to intervals that do not dwarf them.

    >>> [words for _, words in fit_axis([0.2, 0.4], [0.01, float("nan")]).steps]
    ['0.20', '0.25', '0.30', '0.35', '0.40']
    """
    if logarithmic:
        return _logarithmic(values)
    spread = max(values) - min(values)
    middle = median([0.0 if math.isnan(half) else half for half in halves])
    room = max(0.2 * spread, 2 * middle) or 0.1 * abs(values[0]) or 1.0
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


def _logarithmic(values: Sequence[float]) -> Axis:
    """Fit a logarithmic axis: steps at few round values, else at 1, 2 and 5 times powers of ten."""
    logs = [math.log10(value) for value in values]
    margin = max(0.06 * (max(logs) - min(logs)), 0.04)
    low, high = min(logs) - margin, max(logs) + margin
    steps = sorted(set(values))
    if len(steps) > _MOST_STEPS or any(step != float(f"{step:.2g}") for step in steps):
        powers = range(math.floor(low), math.ceil(high) + 1)
        rough = [(step, 10.0**power) for power in powers for step in (1, 2, 5)]
        steps = [step * power for step, power in rough if low <= math.log10(step * power) <= high]
    if len(steps) > _MOST_STEPS:
        steps = [step for step in steps if f"{step:e}".startswith("1.0")]
    return Axis(low, high, tuple((step, f"{step:g}") for step in steps), True)


def round_steps(low: float, high: float, wanted: int = 6) -> list[float]:
    """Return round values between ``low`` and ``high``.

    >>> round_steps(0.42, 0.53)
    [0.42, 0.44, 0.46, 0.48, 0.5, 0.52]
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]
