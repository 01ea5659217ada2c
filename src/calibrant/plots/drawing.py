"""Draw charts with matplotlib, without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.charts import chart as marks
from calibrant.charts.chart import FEW, Chart, named_curves
from calibrant.extras import require
from calibrant.plots.styles import GRID, INK, MUTED, STYLES, curve_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

__all__ = ["DRAWERS", "SIZES", "draw_chart", "draw_charts", "new_figure", "plain", "save_figure"]

# Width and height in inches, by the shape of the chart.
SIZES = {"square": (3.6, 3.5), "wide": (3.6, 2.6), "small": (2.0, 2.1), "rows": (4.3, 0.9),
         "curves": (4.3, 3.2)}  # fmt: skip
_LEGEND: dict[str, Any] = {"frameon": False, "labelcolor": INK}
_ROW = 0.24  # Inches per row of a chart of rows.
_LETTER = 0.065  # Inches per letter of the name of a row.
_LABEL = 10 / 72  # Inches between two names next to the axes.
_NAME = 0.15  # Inches that a name takes in a legend.
_STEP = 2.0  # Points by which curves move aside.
_CROWDED = 1 / 13  # Of the axis, from one text to the next.


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, drawn by Agg; saves as PNG, SVG and PDF."""
    figure: Figure = require("matplotlib.figure", "plots", "Drawing a diagram").Figure(
        figsize=(width, height), dpi=200, layout="constrained"
    )
    require("matplotlib.backends.backend_agg", "plots", "Drawing").FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Save without a date and with fixed ids: the same figure gives the same bytes."""
    matplotlib = require("matplotlib", "plots", "Saving a diagram")
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    metadata = {dates[path.suffix.lower()]: None} if path.suffix.lower() in dates else None
    with matplotlib.rc_context({"svg.hashsalt": "calibrant"}):
        figure.savefig(path, metadata=metadata)


def draw_chart(
    chart: Chart, ax: Axes | None = None, *, legend: bool = True, names: bool = True
) -> Axes:
    """Draw a chart on the given axes, or on those of a new figure; return the axes.

    ``names`` writes the names of curves next to the axes.
    """
    ax = _new_axes(chart) if ax is None else ax
    _frame(ax, chart)
    keys = dict(chart.keys)
    for mark in chart.marks:
        drawn = DRAWERS[type(mark)](mark, ax)
        if isinstance(mark, marks.Bars | marks.Line) and mark.role in keys:
            drawn.set_label(keys[mark.role])
    _note(ax, chart)
    if legend and chart.keys:
        _legend_below(ax, [words for _, words in chart.keys])
    if names and not chart.empty:
        _names(ax, chart)
    return ax


def draw_charts(charts: Sequence[Chart], title: str) -> Figure:
    """Draw charts in rows of two or three, with one legend for the curves of all."""
    rows_of_names = charts[0].shape == "rows"
    columns = min(len(charts), 2 if len(charts) in (2, 4) or rows_of_names else 3)
    rows = -(-len(charts) // columns)
    names = {curve.label for chart in charts for curve in chart.curves}
    height = max(3.2 * rows, _NAME * (len(names) + 2))
    figure = new_figure(5.2 * columns if rows_of_names else 3.6 * columns + 2.4, height)
    places = [figure.add_subplot(rows, columns, place + 1) for place in range(len(charts))]
    for chart, ax in zip(charts, places, strict=True):
        draw_chart(chart, ax, names=False)
    if names:
        _shared_legend(figure, places)
    figure.suptitle(title, fontsize="medium", parse_math=False)
    figure.draw_without_rendering()  # Lays it out, once for all formats.
    figure.set_layout_engine("none")
    return figure


def _new_axes(chart: Chart) -> Axes:
    width, height = SIZES[chart.shape]
    if chart.shape == "rows":
        longest = max((len(words) for _, words in chart.y.ticks), default=0)
        width = max(width, 3.0 + _LETTER * longest)
        height += _ROW * len(chart.y.ticks)
    return new_figure(width, height).add_subplot()


def _frame(ax: Axes, chart: Chart) -> None:
    """Draw axes, labels and a light grid. Sizes are relative to the user's rcParams."""
    small = chart.shape == "small"
    ax.set_xlabel(chart.x.label, fontsize="small", color=INK)
    ax.set_ylabel(chart.y.label, fontsize="small", color=INK)
    if chart.title:
        # parse_math off: a '$' in a name is a dollar, not TeX.
        above = 14 if any(isinstance(mark, marks.Texts) for mark in chart.marks) else 6
        size = "small" if small else "medium"
        ax.set_title(chart.title, fontsize=size, color=INK, loc="left", pad=above, parse_math=False)
    ax.set_axisbelow(True)
    ax.grid(color=GRID, linewidth=0.6)
    for side, spine in ax.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)
    if chart.x.logarithmic:
        ax.set_xscale("log")
        ax.set_xticks([], minor=True)
    if chart.shape == "square" or small:
        ax.set_aspect("equal")
    for axis, set_ticks in ((chart.x, ax.set_xticks), (chart.y, ax.set_yticks)):
        set_ticks([value for value, _ in axis.ticks], [words for _, words in axis.ticks])
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    ax.tick_params(length=0, labelsize="x-small", labelcolor=MUTED)
    if chart.shape == "rows":
        ax.tick_params(axis="y", labelcolor=INK)
    ax.set_xlim(chart.x.low, chart.x.high)
    ax.set_ylim(chart.y.low, chart.y.high)


def _draw_bars(mark: marks.Bars, ax: Axes) -> Any:
    x0, x1, y0, y1 = mark.corners()
    return ax.bar(x0, y1 - y0, x1 - x0, y0, align="edge", **STYLES[mark.role])


def _draw_line(mark: marks.Line, ax: Axes) -> Any:
    return ax.plot(mark.x, mark.y, **STYLES[mark.role])[0]


def _draw_dots(mark: marks.Dots, ax: Axes) -> None:
    ax.plot(mark.x, mark.y, "o", **STYLES[mark.role], clip_on=False)


def _draw_texts(mark: marks.Texts, ax: Axes) -> None:
    size = "xx-small" if min(np.diff(mark.x), default=1.0) > _CROWDED else 5
    for x, y, words in zip(mark.x, mark.y, mark.words, strict=True):
        ax.annotate(
            words, (x, y), (0, 3), textcoords="offset points", ha="center", va="bottom",
            annotation_clip=False, fontsize=size, **STYLES[mark.role],
        )  # fmt: skip


def _draw_hover(mark: marks.Hover, ax: Axes) -> None:
    """Skip: paper has no pointer."""


def _draw_curve(mark: marks.Curve, ax: Axes) -> None:
    style = curve_style(mark.number)
    moved = require("matplotlib.transforms", "plots", "Drawing a diagram").offset_copy(
        ax.transData, ax.figure, x=_STEP * mark.aside, units="points"
    )
    places = [(place.x, place.y, place.y_half, place.x_half) for place in mark.places]
    xs, ys, y_halves, x_halves = zip(*places, strict=True) if places else ((),) * 4
    if mark.whiskers and places:
        whisker = {"ecolor": (style["color"], 0.45), "elinewidth": 0.8, "transform": moved}
        ax.errorbar(xs, ys, y_halves, x_halves, fmt="none", **whisker)
    if len(xs) < 2:
        style["linestyle"] = ""
    (line,) = ax.plot(xs, ys, label=mark.label, linewidth=1.3, clip_on=False, **style)
    # A curve without places has its turn in the legend; its extent of nothing has no layout.
    line.set(transform=moved, markersize=5, markeredgecolor="white", markeredgewidth=0.5)
    line.set_in_layout(bool(places))


def _note(ax: Axes, chart: Chart) -> None:
    """Write the number in the corner, or that there is nothing to draw."""
    if chart.empty:
        middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
        ax.text(0.5, 0.5, chart.empty, fontsize="small", color=MUTED, **middle)
    elif chart.note and chart.shape == "wide":
        ax.set_title(chart.note, fontsize="x-small", color=MUTED, loc="right")
    elif chart.note:
        size, color = ("xx-small", MUTED) if chart.shape == "small" else ("small", INK)
        box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
        corner: dict[str, Any] = {"va": "top", "transform": ax.transAxes, "bbox": box}
        ax.text(0.04, 0.95, chart.note, fontsize=size, color=color, **corner)


def _legend_below(ax: Axes, entries: Sequence[str]) -> None:
    """Put the named entries in rows under the axes, where they cover no data."""
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    height = float(ax.bbox.height / ax.figure.dpi)
    ax.legend(
        [handles[entry] for entry in entries], entries, loc="upper center",
        bbox_to_anchor=(0.5, -30 / (72 * height)), ncols=len(entries) if len(entries) <= 4 else 3,
        fontsize="xx-small", handlelength=1.4, handletextpad=0.5, columnspacing=1.2, **_LEGEND,
    )  # fmt: skip


def _shared_legend(figure: Figure, places: Sequence[Axes]) -> None:
    """Draw every name once, in the order of tables."""
    handles = {
        label: handle
        for ax in places
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    drawn = list(handles.values()), list(handles)
    plain(figure.legend(*drawn, loc="outside right upper", fontsize="x-small", **_LEGEND))


def plain(legend: Legend) -> None:
    """Keep a '$' in a name a dollar; legends have no option for it."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def _names(ax: Axes, chart: Chart) -> None:
    """Write names at the right ends of the curves, with thin lines to them if there are few."""
    named = named_curves(chart, _LABEL / (ax.bbox.height / ax.figure.dpi))
    leader = {"arrowstyle": "-", "color": MUTED, "alpha": 0.6, "linewidth": 0.5, "relpos": (0, 0.5)}
    # No cut at the ends: it takes most of the drawing time, and the point covers it.
    leader |= {"patchA": None, "shrinkA": 0, "shrinkB": 0}
    for curve, name, height in named:
        end, color = curve.places[-1], curve_style(curve.number)["color"]
        ax.annotate(
            name, (end.x, end.y), (1.04, height), textcoords="axes fraction", va="center",
            fontsize="x-small", color=color, parse_math=False, zorder=1.5,
            arrowprops=leader if len(named) <= FEW else None,
        )  # fmt: skip


# Kind of mark → the function that draws it.
DRAWERS: Mapping[type[marks.Mark], Callable[[Any, Any], Any]] = {
    marks.Bars: _draw_bars,
    marks.Line: _draw_line,
    marks.Dots: _draw_dots,
    marks.Texts: _draw_texts,
    marks.Hover: _draw_hover,
    marks.Curve: _draw_curve,
}
