"""Figures without pyplot, and the plain frame that all diagrams share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.extras import require
from calibrant.plots.palette import GRID, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["axes", "frame", "legend_below", "new_figure", "save_figure", "say_empty"]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, drawn by Agg; saves as PNG, SVG and PDF."""
    figure: Figure = require("matplotlib.figure", "plots", "Drawing a diagram").Figure(
        figsize=(width, height), dpi=200, layout="constrained"
    )
    require("matplotlib.backends.backend_agg", "plots", "Drawing").FigureCanvasAgg(figure)
    return figure


def axes(ax: Axes | None, width: float = 3.6, height: float = 3.5) -> Axes:
    """Return the given axes, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def save_figure(figure: Figure, path: Path) -> None:
    """Save without a date and with fixed ids: the same figure gives the same bytes."""
    matplotlib = require("matplotlib", "plots", "Saving a diagram")
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    metadata = {dates[path.suffix.lower()]: None} if path.suffix.lower() in dates else None
    with matplotlib.rc_context({"svg.hashsalt": "calibrant"}):
        figure.savefig(path, metadata=metadata)


def frame(ax: Axes, xlabel: str, ylabel: str, title: str | None = None) -> None:
    """Add labels and a light grid, remove the box. Sizes are relative to the user's rcParams."""
    ax.set_xlabel(xlabel, fontsize="small", color=INK)
    ax.set_ylabel(ylabel, fontsize="small", color=INK)
    if title:
        ax.set_title(title, fontsize="medium", color=INK, loc="left")
    ax.set_axisbelow(True)
    ax.grid(color=GRID, linewidth=0.6)
    ax.tick_params(length=0, labelsize="x-small", labelcolor=MUTED)
    for side, spine in ax.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)


def legend_below(ax: Axes, entries: Sequence[str]) -> None:
    """Put the named entries in one row under the axes, where they cover no data."""
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ax.legend(
        [handles[entry] for entry in entries],
        entries,
        loc="upper center",
        bbox_to_anchor=(0.5, -30 / (72 * _height(ax))),
        ncols=4,
        fontsize="xx-small",
        frameon=False,
        handlelength=1.4,
        handletextpad=0.5,
        columnspacing=1.2,
        labelcolor=INK,
    )


def _height(ax: Axes) -> float:
    """Return the height of the axes in inches, as first laid out."""
    return float(ax.bbox.height / ax.figure.dpi)


def say_empty(ax: Axes) -> None:
    """Write that there is no data instead of showing a bare grid."""
    place = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, "no examples", fontsize="small", color=MUTED, **place)  # type: ignore[arg-type]
