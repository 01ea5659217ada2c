"""The figures of a study as inline SVG: points that answer a hover, lines with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.plots.trade_off import spaced
from calibrant.report.chart import Chart
from calibrant.report.markup import Markup, tag
from calibrant.study.axis import Axis, fit_axis
from calibrant.study.estimate import show
from calibrant.study.panels import Curve, Panel, Place

__all__ = ["draw_panel"]

_COLOURS, _DASHES = 7, 4
_LINE = 13  # Units from one name to the next.
_LONGEST = 34  # Letters of a name that fit beside the axes.
_REACH = 9  # Units around a point that answer a hover.


def draw_panel(panel: Panel, figure: str) -> Markup:
    """One pair of axes with the names of its curves beside."""
    chart = Chart(560, 330, left=58, right=200, above=14)
    places = [place for curve in panel.curves for place in curve.places]
    label = f"{figure}, {panel.title}"
    if not places:
        return chart.svg(label, "No values.", chart.text(0.5, 0.5, "no values", "axis mid"))
    across = fit_axis([p.x for p in places], [p.x_half for p in places], panel.logarithmic)
    up = fit_axis([p.y for p in places], [p.y_half for p in places])
    frame = _Frame(chart, across, up, panel)
    shapes = [
        chart.labels(panel.x_label, panel.y_label),
        chart.grid(
            [(across(value), words) for value, words in across.steps],
            [(up(value), words) for value, words in up.steps],
        ),
        *frame.names(),
        *(shape for number in range(len(panel.curves)) for shape in frame.curve(number)),
    ]
    said = f"{panel.y_label} against {panel.x_label} of {len(panel.curves)} methods."
    return chart.svg(label, said, *shapes)


@dataclass(frozen=True)
class _Frame:
    """A chart with its axes, ready to be drawn in."""

    chart: Chart
    across: Axis
    up: Axis
    panel: Panel

    def at(self, place: Place) -> tuple[float, float]:
        """The units of a place in the drawing."""
        return self.chart.x(self.across(place.x)), self.chart.y(self.up(place.y))

    def curve(self, number: int) -> list[Markup]:
        """A line, its whiskers and its points."""
        curve = self.panel.curves[number]
        colour, dash = f"s{number % _COLOURS}", f"d{number // _COLOURS % _DASHES}"
        shapes = []
        if len(curve.places) > 1:
            xs, ys = (
                [self.across(p.x) for p in curve.places],
                [self.up(p.y) for p in curve.places],
            )
            shapes.append(self.chart.path(xs, ys, f"curve {colour} {dash}"))
        for place in curve.places:
            x, y = self.at(place)
            spot = tag("circle", cx=x, cy=y, r=4.5, class_=f"spot {colour}")
            hit = tag("circle", cx=x, cy=y, r=_REACH, class_="hit")
            tip = "\n".join([*_told(curve.label, place, self.panel), *self.near(curve, place)])
            whiskers = self.whiskers(place, f"whisker {colour}")
            shapes.append(tag("g", *whiskers, spot, hit, data_tip=tip))
        return shapes

    def whiskers(self, place: Place, class_: str) -> list[Markup]:
        """Lines over the intervals, as far as they are known."""
        x, y, shapes = self.across(place.x), self.up(place.y), []
        if not math.isnan(place.y_half):
            low, high = self.up(place.y - place.y_half), self.up(place.y + place.y_half)
            shapes.append(self.chart.line(x, x, low, high, class_))
        if not math.isnan(place.x_half):
            low, high = self.across(place.x - place.x_half), self.across(place.x + place.x_half)
            shapes.append(self.chart.line(low, high, y, y, class_))
        return shapes

    def near(self, curve: Curve, place: Place) -> list[str]:
        """Who else lies where the pointer is, and would be covered."""
        others = [
            other.label
            for other in self.panel.curves
            if other is not curve
            and any(math.dist(self.at(p), self.at(place)) < _REACH for p in other.places)
        ]
        return [f"Close by: {', '.join(others)}"] if others else []

    def names(self) -> list[Markup]:
        """The names in a column, as high as the ends of their curves as far as there is room."""
        drawn = [(n, curve) for n, curve in enumerate(self.panel.curves) if curve.places]
        drawn.sort(key=lambda item: item[1].places[-1].y)
        gap = _LINE / (self.chart.height - self.chart.above - self.chart.below)
        heights = spaced([self.up(curve.places[-1].y) for _, curve in drawn], gap)
        shapes = []
        for (number, curve), height in zip(drawn, heights, strict=True):
            (x0, y0), x, y = self.at(curve.places[-1]), self.chart.x(1) + 10, self.chart.y(height)
            text = (
                curve.label if len(curve.label) <= _LONGEST else f"{curve.label[: _LONGEST - 1]}…"
            )
            shapes += [
                tag("line", x1=x0, y1=y0, x2=x - 3, y2=y - 3, class_="leader"),
                tag("text", text, x=x, y=y, class_=f"name s{number % _COLOURS}"),
            ]
        return shapes


def _told(label: str, place: Place, panel: Panel) -> list[str]:
    """What a point says: its method, and both values."""
    sides = ((panel.y_label, place.y, place.y_half), (panel.x_label, place.x, place.x_half))
    lines = [label]
    for name, value, half in sides:
        digits = 4 if abs(value) < 10 else 1
        if math.isnan(half):
            lines.append(f"{name} {value:.6g}")
        else:
            lines.append(f"{name} {show(value, digits)} ± {show(half, digits)}")
    return lines
