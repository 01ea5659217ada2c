"""A metric against a number (depth, strength, weight): one line per method, with its intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from calibrant.arguments import check_each
from calibrant.errors import InputError
from calibrant.plots.canvas import axes, frame, say_empty
from calibrant.plots.trade_off import LINE, spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "Series", "series_diagram", "series_style"]

# Okabe & Ito (2008) without yellow, which white paper swallows; the page of a study has the same.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2430")


class Series(NamedTuple):
    """A line: its values at ``x`` and half of the interval of each (NaN: unknown)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float]


def series_diagram(
    series: Sequence[Series],
    ax: Axes | None = None,
    *,
    x_label: str,
    y_label: str,
    title: str | None = None,
    logarithmic: bool = False,
) -> Axes:
    """Draw the lines with their intervals; the labels stand beside the ends of the lines.

    >>> line = Series("focal", [1, 2], [0.02, 0.03], [0.01, 0.01])
    >>> series_diagram([line], x_label="Depth", y_label="ECE").get_xlabel()
    'Depth'
    """
    check_each("series_diagram", series, Series)
    lines = [line for line in series if len(line.x)]
    for line in lines:
        if not all(map(math.isfinite, (*line.x, *line.y))):
            raise InputError(f"series_diagram cannot draw '{line.label}': a value is not finite.")
    ax = axes(ax, 4.3, 3.2)
    frame(ax, x_label, y_label, title)
    if not lines:
        say_empty(ax)
        return ax
    for place, line in enumerate(lines):
        color, dash = series_style(place)
        halves = [0 if math.isnan(half) else half for half in line.half]
        style = {"color": color, "linestyle": dash, "linewidth": 1.3, "elinewidth": 0.8}
        style["ecolor"] = (color, 0.45)
        ax.errorbar(line.x, line.y, halves, marker="o", markersize=3, **style)  # type: ignore[arg-type]
    if logarithmic:
        ax.set_xscale("log")
    else:
        values = sorted({x for line in lines for x in line.x})
        if len(values) <= 8:
            ax.set_xticks(values)
    _label(ax, lines)
    return ax


def series_style(place: int) -> tuple[str, str]:
    """Return colour and dash of the line at a place.

    >>> series_style(0), series_style(len(COLOURS))
    (('#0072b2', '-'), ('#0072b2', '--'))
    """
    dashes = ("-", "--", ":", "-.")
    return COLOURS[place % len(COLOURS)], dashes[place // len(COLOURS) % len(dashes)]


def _label(ax: Axes, lines: Sequence[Series]) -> None:
    """Write names beside the right ends, moved apart if they would overlap."""
    ends = sorted((line.y[-1], place) for place, line in enumerate(lines))
    low, high = ax.get_ylim()
    gap = LINE / (ax.bbox.height / ax.figure.dpi)
    heights = spaced([(y - low) / (high - low) for y, _ in ends], gap)
    for (_, place), height in zip(ends, heights, strict=True):
        line = lines[place]
        ax.annotate(
            line.label,
            (line.x[-1], line.y[-1]),
            (1.04, height),
            textcoords="axes fraction",
            va="center",
            fontsize="x-small",
            color=series_style(place)[0],
            parse_math=False,
        )
