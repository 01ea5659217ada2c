"""The figures of a study drawn by matplotlib, the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.extras import require
from calibrant.plots.canvas import new_figure
from calibrant.plots.series import Series, series_diagram
from calibrant.plots.trade_off import Point, trade_off
from calibrant.study.figures import Figure, Panel

__all__ = ["FORMATS", "draw_figure", "save_figure"]

FORMATS = ("svg", "png")
_COLUMNS = 2


def draw_figure(figure: Figure) -> Any:
    """All panels in rows of two."""
    count = len(figure.panels)
    rows, columns = -(-count // _COLUMNS), min(count, _COLUMNS)
    drawn = new_figure(5.2 * columns, 3.4 * rows)
    for place, panel in enumerate(figure.panels):
        _draw(panel, figure.kind, drawn.add_subplot(rows, columns, place + 1))
    drawn.suptitle(figure.title, fontsize="medium")
    return drawn


def _draw(panel: Panel, kind: str, ax: Any) -> None:
    if kind == "points":
        points = [
            Point(curve.label, place.x, place.y, place.x_half, place.y_half)
            for curve in panel.curves
            for place in curve.places
        ]
        trade_off(points, ax, title=panel.title)
        return
    lines = [
        Series(
            curve.label,
            [place.x for place in curve.places],
            [place.y for place in curve.places],
            [place.y_half for place in curve.places],
        )
        for curve in panel.curves
    ]
    labels = {"x_label": panel.x_label, "y_label": panel.y_label}
    series_diagram(lines, ax, title=panel.title, logarithmic=panel.logarithmic, **labels)


def save_figure(drawn: Any, path: Path) -> None:
    """Save without a date and with ids that do not change: the same study gives the same file."""
    matplotlib = require("matplotlib", "plots", "Drawing a figure")
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "calibrant", "svg.fonttype": "path"}):
        drawn.savefig(path, metadata=metadata, dpi=150)
