"""A chart as data: two axes and the marks between them, drawn by matplotlib and as SVG alike.

A mark has a *role*, such as "bar" or "gap over". Each renderer has one table of how a role looks:
``calibrant.plots.styles`` for matplotlib, ``calibrant/report/style.css`` for pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "FEW", "Axis", "Bars", "Chart", "Curve", "Dots", "Hover", "Line", "Mark", "Place", "Texts",
    "curve_look", "named_curves", "segments", "short_name", "spaced",
]  # fmt: skip

FEW = 8  # Curves whose intervals and leaders stay legible.
_LONGEST = 48  # Letters of a name that fit next to the axes.
_COLOURS, _SHAPES = 7, 4  # Curves differ in colour first, then in shape and dash.


@dataclass(frozen=True)
class Axis:
    """A labelled axis; a tick is a value with its words."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Map a value to its share of the axis, from 0 to 1; values outside go to the end."""
        low, high = self.low, self.high
        if self.logarithmic:
            value = math.log10(value) if value > 0 else -math.inf
            low, high = math.log10(low), math.log10(high)
        return min(max((float(value) - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Bars:
    """Rectangles between data coordinates; numbers are repeated to the length of arrays."""

    role: str
    x0: ArrayLike
    x1: ArrayLike
    y0: ArrayLike
    y1: ArrayLike

    def corners(self) -> list[np.ndarray]:
        """Return x0, x1, y0 and y1 as arrays of one length."""
        return _arrays(self.x0, self.x1, self.y0, self.y1)


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points; NaN interrupts it."""

    role: str
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Dots:
    """Points without a name."""

    role: str
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Texts:
    """Words centred just above data coordinates."""

    role: str
    x: np.ndarray
    y: np.ndarray
    words: tuple[str, ...]


@dataclass(frozen=True)
class Hover:
    """An area that shows a tip; matplotlib has no pointer and skips it. ``dot`` marks its value."""

    tip: str
    x0: float
    x1: float
    y0: float
    y1: float
    dot: tuple[float, float] | None = None


@dataclass(frozen=True)
class Place:
    """One estimate of a curve or a cloud, with half of each interval (NaN: unknown)."""

    x: float
    y: float
    x_half: float = math.nan
    y_half: float = math.nan


@dataclass(frozen=True)
class Curve:
    """The places of one method, named next to the axes; a single place is a point."""

    label: str
    places: tuple[Place, ...]
    number: int = 0  # Decides colour, shape and dash.
    whiskers: bool = True
    aside: float = 0.0  # Steps by which the curve moves sideways, so that whiskers do not overlap.


Mark: TypeAlias = Bars | Line | Dots | Texts | Hover | Curve


@dataclass(frozen=True, eq=False)
class Chart:
    """Axes and marks. ``shape`` is "square", "wide", "small", "rows" or "curves"."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""
    description: str = ""  # For readers who cannot see the picture.
    shape: str = "wide"
    keys: tuple[tuple[str, str], ...] = ()  # Role → its words in the legend.
    note: str = ""  # A number in a corner: above wide charts, inside others.
    empty: str = ""  # Words in the middle of a chart without data.

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The named curves among the marks."""
        return tuple(mark for mark in self.marks if isinstance(mark, Curve))


def segments(role: str, x0: ArrayLike, x1: ArrayLike, y0: ArrayLike, y1: ArrayLike) -> Line:
    """Return a line for each pair of ends.

    >>> segments("level", 0, 1, 2, 3).y
    array([ 2.,  3., nan])
    """
    left, right, start, end, gap = _arrays(x0, x1, y0, y1, np.nan)
    x, y = (np.stack(ends, axis=-1).ravel() for ends in ((left, right, gap), (start, end, gap)))
    return Line(role, x, y)


def _arrays(*values: ArrayLike) -> list[np.ndarray]:
    return list(np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, float)) for v in values)))


def curve_look(number: int) -> tuple[int, int]:
    """Return the numbers of a curve's colour and of its shape and dash.

    >>> curve_look(0), curve_look(8)
    ((0, 0), (1, 1))
    """
    return number % _COLOURS, number // _COLOURS % _SHAPES


def short_name(label: str) -> str:
    """Shorten a name in the middle: its end often sets it apart.

    >>> short_name("head_noise_error_regularization (shell, weight 0.025, parts 2)")
    'head_noise_error_regularizat…ght 0.025, parts 2)'
    """
    if len(label) <= _LONGEST:
        return label
    end = 2 * _LONGEST // 5
    return f"{label[: _LONGEST - end - 1]}…{label[-end:]}"


def named_curves(chart: Chart, gap: float) -> list[tuple[Curve, str, float]]:
    """Return the curves with their short names and the heights of these, as shares of the axis.

    A name is at the end of its curve, or moves up or down to stay ``gap`` from its neighbours.
    """
    drawn = sorted((c for c in chart.curves if c.places), key=lambda curve: curve.places[-1].y)
    heights = spaced([chart.y(curve.places[-1].y) for curve in drawn], gap)
    labels = (short_name(curve.label) for curve in drawn)
    return list(zip(drawn, labels, heights, strict=True))


def spaced(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending ``places`` apart to at least ``gap``, up to 1, in a greedy pass.

    >>> spaced([0.2, 0.25, 0.9], 0.1)
    [0.2, 0.30000000000000004, 0.9]
    >>> spaced([0.95, 1.0], 0.5)
    [0.5, 1.0]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    ceiling = 1.0
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    return moved
