"""The figures of a study, drawn by matplotlib for papers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant.extras import require
from calibrant.plots.canvas import frame, new_figure, say_empty
from calibrant.plots.palette import INK
from calibrant.plots.ranks import rank_diagram
from calibrant.plots.series import COLOURS, series_style
from calibrant.study.panels import Curve, Figure, Panel, axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = ["draw_figure"]

_MARKERS = ("o", "s", "^", "D")  # As the page has them: colours come round, shapes change.
_NAME = 0.15  # Inches that a name takes in the legend.
_STEP = 2.0  # Points by which curves move aside.


def draw_figure(figure: Figure) -> Drawing:
    """Draw all panels in rows of two or three, with one legend."""
    count = len(figure.panels)
    columns = min(count, 2 if count in (2, 4) or figure.kind == "ranks" else 3)
    rows = -(-count // columns)
    ranks = figure.kind == "ranks"
    names = {curve.label for panel in figure.panels for curve in panel.curves}
    height = 3.2 * rows if ranks else max(3.2 * rows, _NAME * (len(names) + 2))
    drawn = new_figure(5.2 * columns if ranks else 3.6 * columns + 2.4, height)
    places = [drawn.add_subplot(rows, columns, place + 1) for place in range(count)]
    for panel, ax in zip(figure.panels, places, strict=True):
        (_draw_ranks if ranks else _draw)(panel, ax)
    if not ranks:
        _legend(drawn, places)
    drawn.suptitle(figure.title, fontsize="medium", parse_math=False)
    drawn.draw_without_rendering()  # Lays it out, once for all formats.
    drawn.set_layout_engine("none")
    return drawn


def _draw_ranks(panel: Panel, ax: Axes) -> None:
    ranks = {curve.label: curve.places[0].x for curve in panel.curves}
    rank_diagram(ranks, panel.critical_difference, ax, title=panel.title)


def _draw(panel: Panel, ax: Axes) -> None:
    frame(ax, panel.x_label, panel.y_label, panel.title)
    if not any(curve.places for curve in panel.curves):
        say_empty(ax)
        return
    for number, curve in enumerate(panel.curves):
        _draw_curve(curve, number, panel, ax)
    across, up = axes_of(panel)
    if panel.logarithmic:
        ax.set_xscale("log")
        ax.set_xticks([], minor=True)
    ax.set_xticks([v for v, _ in across.steps], [words for _, words in across.steps])
    ax.set_yticks([v for v, _ in up.steps], [words for _, words in up.steps])
    ax.set_xlim(across.limits)
    ax.set_ylim(up.limits)


def _draw_curve(curve: Curve, number: int, panel: Panel, ax: Axes) -> None:
    color, dash = series_style(number)
    moved = require("matplotlib.transforms", "plots", "Drawing a diagram").offset_copy(
        ax.transData, ax.figure, x=_STEP * panel.aside(number), units="points"
    )
    xs, ys = [place.x for place in curve.places], [place.y for place in curve.places]
    if panel.whiskers:
        x_halves, y_halves = (
            [0.0 if math.isnan(half) else half for half in halves]
            for halves in (
                [place.x_half for place in curve.places],
                [place.y_half for place in curve.places],
            )
        )
        style = {"fmt": "none", "ecolor": (color, 0.45), "elinewidth": 0.8, "transform": moved}
        ax.errorbar(xs, ys, y_halves, x_halves, **style)
    marker = _MARKERS[number // len(COLOURS) % len(_MARKERS)]
    dash = dash if len(xs) > 1 else ""
    (line,) = ax.plot(xs, ys, label=curve.label, color=color, linestyle=dash, linewidth=1.3)
    line.set(
        transform=moved, marker=marker, markersize=5, markeredgecolor="white", markeredgewidth=0.5
    )


def _legend(drawn: Drawing, places: list[Axes]) -> None:
    """Draw every name once, in the order of tables."""
    handles = {
        label: handle
        for ax in places
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    legend = drawn.legend(
        list(handles.values()),
        list(handles),
        loc="outside right upper",
        fontsize="x-small",
        frameon=False,
        labelcolor=INK,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
