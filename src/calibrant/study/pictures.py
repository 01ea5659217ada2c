"""The figures of a study drawn by matplotlib, for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.plots.canvas import new_figure
from calibrant.plots.ranks import rank_diagram
from calibrant.plots.series import Series, series_diagram
from calibrant.plots.trade_off import Point, trade_off
from calibrant.study.panels import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = ["draw_figure"]

_COLUMNS = 2


def draw_figure(figure: Figure) -> Drawing:
    """All panels in rows of two."""
    count = len(figure.panels)
    rows, columns = -(-count // _COLUMNS), min(count, _COLUMNS)
    drawn = new_figure(5.2 * columns, 3.4 * rows)
    for place, panel in enumerate(figure.panels):
        _draw(panel, figure.kind, drawn.add_subplot(rows, columns, place + 1))
    drawn.suptitle(figure.title, fontsize="medium")
    drawn.draw_without_rendering()  # Lays it out, once for all formats.
    drawn.set_layout_engine("none")
    return drawn


def _draw(panel: Panel, kind: str, ax: Axes) -> None:
    if kind == "points":
        points = [
            Point(curve.label, place.x, place.y, place.x_half, place.y_half)
            for curve in panel.curves
            for place in curve.places
        ]
        trade_off(points, ax, title=panel.title, score=panel.y_label)
        return
    if kind == "ranks":
        ranks = {curve.label: curve.places[0].x for curve in panel.curves}
        rank_diagram(ranks, panel.critical_difference, ax, title=panel.title)
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
