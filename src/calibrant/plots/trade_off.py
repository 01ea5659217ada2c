"""Performance against calibration: one labelled point per method, the best in the upper left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from calibrant.arguments import check_each
from calibrant.errors import InputError
from calibrant.plots.canvas import axes, frame, say_empty
from calibrant.plots.palette import ACCURACY, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LINE", "Point", "spaced", "trade_off"]

LINE = 10 / 72  # Inches from one label to the next.


class Point(NamedTuple):
    """A method: its ECE and F1 as shares, and half of the interval of each (NaN: unknown)."""

    label: str
    ece: float
    f1: float
    ece_half: float = math.nan
    f1_half: float = math.nan


def trade_off(
    points: Sequence[Point],
    ax: Axes | None = None,
    *,
    title: str | None = None,
    score: str = "F1",
) -> Axes:
    """Draw F1 against ECE, both in per cent, with their intervals as crosses.

    The labels stand in a column beside the axes, in the order of F1, so that they cover neither
    each other nor the points. APCR = F1² / ECE rises to the upper left. ``score`` is the axis name
    if the number is not F1.

    >>> trade_off([Point("focal", 0.02, 0.8), Point("mixup", 0.03, 0.81)]).get_xlabel()
    'ECE (%), less is better'
    """
    check_each("trade_off", points, Point)
    for p in points:
        if not (math.isfinite(p.ece) and math.isfinite(p.f1)):
            raise InputError(f"trade_off cannot draw '{p.label}': ECE {p.ece}, F1 {p.f1}.")
    ax = axes(ax, 4.3, 3.2)
    frame(ax, "ECE (%), less is better", f"{score} (%), more is better", title)
    if not points:
        say_empty(ax)
        return ax
    for p in points:
        x, y = 100 * p.ece, 100 * p.f1
        xerr, yerr = (0 if math.isnan(h) else 100 * h for h in (p.ece_half, p.f1_half))
        ax.errorbar(x, y, yerr, xerr, color=MUTED, alpha=0.45, linewidth=0.8, zorder=2)
        ax.plot(x, y, "o", color=ACCURACY, markersize=5, markeredgecolor="white", zorder=3)
    ax.set_xlim(left=max(0.0, ax.get_xlim()[0]))  # An ECE is never below 0; its interval may be.
    _label(ax, points)
    return ax


def _label(ax: Axes, points: Sequence[Point]) -> None:
    points = sorted(points, key=lambda p: p.f1)
    low, high = ax.get_ylim()
    gap = LINE / (ax.bbox.height / ax.figure.dpi)
    heights = spaced([(100 * p.f1 - low) / (high - low) for p in points], gap)
    for p, height in zip(points, heights, strict=True):
        ax.annotate(
            p.label,
            (100 * p.ece, 100 * p.f1),
            (1.04, height),
            textcoords="axes fraction",
            va="center",
            fontsize="x-small",
            color=INK,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": MUTED,
                "alpha": 0.6,
                "linewidth": 0.5,
                "relpos": (0, 0.5),
                # No cut at the ends: it takes most of the drawing time, and the point covers it.
                "patchA": None,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=2.5,
        )


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
