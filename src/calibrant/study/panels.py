"""What a figure is made of, as data: drawn on the page, and by matplotlib for papers."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FEW", "Curve", "Figure", "Panel", "Place"]

FEW = 8  # Curves whose intervals and leaders can be told apart.


@dataclass(frozen=True)
class Place:
    """One estimate of a curve or a cloud: where it lies, and how sure that is."""

    x: float
    y: float
    x_half: float = math.nan
    y_half: float = math.nan


@dataclass(frozen=True)
class Curve:
    """The places of one method; one place is a point."""

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
        """Whether intervals are drawn: those of many lines at the same places cover each other."""
        return not self._lines or len(self.curves) <= FEW

    def aside(self, number: int) -> float:
        """By how many small steps a curve moves sideways, so that whiskers stand side by side."""
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
