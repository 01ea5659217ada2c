"""Figures of a study as inline SVG, with tips on hover."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.plots.trade_off import spaced
from calibrant.report.chart import Chart
from calibrant.report.markup import Markup, tag
from calibrant.study.panels import FEW, Axis, Panel, Place, axes_of
from calibrant.study.statistics import show

__all__ = ["draw_panel", "draw_ranks"]

_COLOURS, _SHAPES = 7, 4
_LINE = 13  # Units from one name to the next.
_LETTER = 6.1  # Typical width of a letter of a name, in units.
_LONGEST = 48  # Letters of a name that fit beside the axes.
_AXES = 290  # Units across the axes themselves, at least.
_STEP = 0.01  # Of the width of the axes, by which curves move aside.
_REACH = 9  # Units around a point that answer a hover.
_ROW = 19  # Units from one method to the next.


def draw_panel(panel: Panel, figure: str) -> Markup:
    """Draw one pair of axes, with the names of the curves beside it."""
    height = max(330, 70 + _LINE * len(panel.curves))
    drawn = [curve for curve in panel.curves if curve.places]
    longest = max((len(_short(curve.label)) for curve in drawn), default=0)
    right = 40 + _LETTER * longest
    chart = Chart(max(560, 58 + _AXES + right), height, left=58, right=right, above=14)
    places = [place for curve in panel.curves for place in curve.places]
    label = f"{figure}, {panel.title}"
    if not places:
        return chart.svg(label, "No values.", chart.text(0.5, 0.5, "no values", "axis mid"))
    across, up = axes_of(panel)
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
    described = f"{panel.y_label} against {panel.x_label} of {len(drawn)} methods."
    return chart.svg(label, described, *shapes)


@dataclass(frozen=True)
class _Frame:
    """A chart with its axes, ready for drawing."""

    chart: Chart
    across: Axis
    up: Axis
    panel: Panel

    def at(self, place: Place, number: int) -> tuple[float, float]:
        """Return the position of a place of a curve in units of the drawing."""
        return self.chart.x(self.x(place, number)), self.chart.y(self.up(place.y))

    def x(self, place: Place, number: int) -> float:
        """Return how far across a place of a curve is drawn, from 0 to 1."""
        return self.across(place.x) + _STEP * self.panel.aside(number)

    def curve(self, number: int) -> list[Markup]:
        """Draw a line, its whiskers and its points."""
        curve = self.panel.curves[number]
        colour, dash = f"s{number % _COLOURS}", f"d{number // _COLOURS % _SHAPES}"
        shapes = []
        if len(curve.places) > 1:
            xs = [self.x(place, number) for place in curve.places]
            ys = [self.up(place.y) for place in curve.places]
            shapes.append(self.chart.path(xs, ys, f"curve {colour} {dash}"))
        for place in curve.places:
            x, y = self.at(place, number)
            hit = tag("circle", cx=x, cy=y, r=_REACH, class_="hit")
            tip = "\n".join([*_tip(curve.label, place, self.panel), *self.near(number, place)])
            whiskers = self.whiskers(place, number) if self.panel.whiskers else []
            spot = _spot(x, y, number, f"spot {colour}")
            shapes.append(tag("g", *whiskers, spot, hit, data_tip=tip))
        return shapes

    def whiskers(self, place: Place, number: int) -> list[Markup]:
        """Draw lines over the known intervals."""
        class_, shapes = f"whisker s{number % _COLOURS}", []
        x, y = self.x(place, number), self.up(place.y)
        if not math.isnan(place.y_half):
            low, high = self.up(place.y - place.y_half), self.up(place.y + place.y_half)
            shapes.append(self.chart.line(x, x, low, high, class_))
        if not math.isnan(place.x_half):
            low, high = self.across(place.x - place.x_half), self.across(place.x + place.x_half)
            shapes.append(self.chart.line(low, high, y, y, class_))
        return shapes

    def near(self, number: int, place: Place) -> list[str]:
        """Name the other curves under the pointer, which this point would cover."""
        here = self.at(place, number)
        others = [
            other.label
            for n, other in enumerate(self.panel.curves)
            if n != number and any(math.dist(self.at(p, n), here) < _REACH for p in other.places)
        ]
        return [f"Close by: {', '.join(others)}"] if others else []

    def names(self) -> list[Markup]:
        """Draw the names in a column, near the ends of their curves where there is room."""
        drawn = [(n, curve) for n, curve in enumerate(self.panel.curves) if curve.places]
        drawn.sort(key=lambda item: item[1].places[-1].y)
        gap = _LINE / (self.chart.height - self.chart.above - self.chart.below)
        heights = spaced([self.up(curve.places[-1].y) for _, curve in drawn], gap)
        shapes = []
        for (number, curve), height in zip(drawn, heights, strict=True):
            x0, y0 = self.at(curve.places[-1], number)
            x, y = self.chart.x(1) + 24, self.chart.y(height)
            if len(drawn) <= FEW:
                line = {"x1": x0, "y1": y0, "x2": x - 14, "y2": y - 3.5}
                shapes.append(tag("line", **line, class_="leader"))
            shapes += [
                _spot(x - 8, y - 3.5, number, f"key s{number % _COLOURS}"),
                tag("text", _short(curve.label), x=x, y=y, class_=f"name s{number % _COLOURS}"),
            ]
        return shapes


def _short(label: str) -> str:
    """Shorten a name in the middle: its end often sets it apart.

    >>> _short("head_noise_error_regularization (shell, weight 0.025, parts 2)")
    'head_noise_error_regularizat…ght 0.025, parts 2)'
    """
    if len(label) <= _LONGEST:
        return label
    end = 2 * _LONGEST // 5
    return f"{label[: _LONGEST - end - 1]}…{label[-end:]}"


def _spot(x: float, y: float, number: int, class_: str) -> Markup:
    """Draw a point; after seven curves the colours repeat with another shape."""
    shape = number // _COLOURS % _SHAPES
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=4.5, class_=class_)
    if shape == 1:
        return tag("rect", x=x - 4, y=y - 4, width=8, height=8, class_=class_)
    corners = (
        [(0, -5.5), (5, 4), (-5, 4)] if shape == 2 else [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)]
    )
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return tag("polygon", points=points, class_=class_)


def _tip(label: str, place: Place, panel: Panel) -> list[str]:
    """List the method and both values of a point, for its tip."""
    sides = ((panel.y_label, place.y, place.y_half), (panel.x_label, place.x, place.x_half))
    lines = [label]
    for name, value, half in sides:
        digits = 4 if abs(value) < 10 else 1
        if math.isnan(half):
            lines.append(f"{name} {value:.6g}")
        else:
            lines.append(f"{name} {show(value, digits)} ± {show(half, digits)}")
    return lines


def draw_ranks(panel: Panel, figure: str) -> Markup:
    """Draw one row per curve, in the given order."""
    count = len(panel.curves)
    chart = Chart(560, 70 + _ROW * count, top=float(count), left=14, right=250, above=10)

    def across(rank: float) -> float:
        return min(max((rank - 0.8) / (count - 0.6), 0.0), 1.0)

    best = min(curve.places[0].x for curve in panel.curves)
    band = chart.box(across(best), across(best + panel.critical_difference), 0, count, "band")
    steps = [(across(rank), str(rank)) for rank in range(1, count + 1)]
    rows = []
    for place, curve in enumerate(panel.curves):
        rank, height = curve.places[0].x, count - place - 0.5
        near = rank - best < panel.critical_difference
        verdict = "Not significantly worse than the best" if near else "Worse than the best"
        rows.append(
            tag(
                "g",
                tag("circle", cx=chart.x(across(rank)), cy=chart.y(height), r=4.5,
                    class_="spot s0"),
                chart.text(1, height, curve.label, "tick", dx=10, dy=4),
                chart.box(0, 1, height - 0.5, height + 0.5, "hit"),
                data_tip=f"{curve.label}\nAverage rank {rank:.2f}\n{verdict}",
            )
        )  # fmt: skip
    described = f"{count} methods, the best with rank {best:.2f}."
    label = f"{figure}, {panel.title}"
    axis = chart.labels("Average rank, less is better", "")
    return chart.svg(label, described, band, chart.grid(steps, []), axis, *rows)
