"""Draw charts as inline SVG, with tips on hover, tap and arrow keys. Looks are in ``style.css``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from calibrant.charts import chart as marks
from calibrant.charts.chart import FEW, Chart, curve_look, named_curves, short_name
from calibrant.charts.numbers import show
from calibrant.report.markup import Markup, join, tag

__all__ = ["DRAWERS", "SIZES", "draw_svg", "legend"]

# Width and height of the drawing in units, by the shape of the chart.
SIZES = {"square": (420, 420), "wide": (420, 250), "small": (200, 190), "rows": (560, 70),
         "curves": (560, 330)}  # fmt: skip
# Points around a place: circle, square, triangle and diamond.
_SHAPES = (
    "m-4.5,0a4.5,4.5 0 1 0 9,0a4.5,4.5 0 1 0 -9,0z", "m-4,-4h8v8h-8z", "m0,-5.5l5,9.5h-10z",
    "m0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z",
)  # fmt: skip
_LINE = 13  # Units from one name to the next.
_LETTER = 6.1  # Typical width of a letter of a name.
_DIGIT = 7.5  # Width of a letter of a tick; on small screens these grow.
_AXES = 290  # Units across the axes themselves, at least, if names are next to them.
_STEP = 0.01  # Of the width of the axes, by which curves move aside.
_REACH = 9  # Units around a point that react to a hover.
_ROW = 19  # Units from one row to the next.
_TEXT = 20  # Units that a short text needs; closer ones are left out.


def draw_svg(chart: Chart, label: str) -> Markup:
    """Return the drawing as one tab stop; the arrow keys step through its tips.

    ``label`` names the drawing to readers who cannot see it.
    """
    frame = _fit(chart)
    return tag(
        "svg",
        tag("desc", chart.description),
        *_grid(frame),
        *_names(frame),
        *(DRAWERS[type(mark)](mark, frame) for mark in chart.marks),
        *_words(frame),
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        tabindex=0,
        aria_label=f"{label}. {chart.description} Arrow keys step through the values.",
    )


def legend(chart: Chart) -> Markup:
    """Return the key to the colours of a chart."""
    return join(
        tag("span", tag("i", class_=f"swatch {role}"), words, class_="key")
        for role, words in chart.keys
    )


@dataclass(frozen=True)
class _Frame:
    """A chart on a drawing; ``x`` and ``y`` map data to its coordinates."""

    chart: Chart
    width: float
    height: float
    left: float
    right: float
    above: float
    below: float

    def x(self, value: float) -> float:
        return self.across(self.chart.x(value))

    def across(self, share: float) -> float:
        """Map a share of the width of the axes to its coordinate."""
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        return self.up(self.chart.y(value))

    def up(self, share: float) -> float:
        """Map a share of the height of the axes to its coordinate."""
        return self.above + (1 - share) * (self.height - self.above - self.below)

    def at(self, curve: marks.Curve, place: marks.Place) -> tuple[float, float]:
        return self.across(self.chart.x(place.x) + _STEP * curve.aside), self.y(place.y)


def _fit(chart: Chart) -> _Frame:
    """Return a frame with room for the ticks and the names."""
    width, height = SIZES[chart.shape]
    rows, small = chart.shape == "rows", chart.shape == "small"
    words = [text for _, text in chart.y.ticks]
    letter = _LETTER if rows else _DIGIT
    left = letter * max(map(len, words), default=2) + (16 if rows else 6)
    left += 24 if chart.y.label and not small else 0
    last = chart.x.ticks[-1][1] if chart.x.ticks else ""
    right = max(8.0 if small else 14.0, _DIGIT * len(last) / 2)
    above = 10 if rows or small else 20
    drawn = [curve for curve in chart.curves if curve.places]
    if drawn:
        right = 40 + _LETTER * max(len(short_name(curve.label)) for curve in drawn)
    height = max(height, 70 + _LINE * len(chart.curves)) + (_ROW * len(words) if rows else 0)
    if rows or drawn:
        width = max(width, math.ceil(left + _AXES + right))
    return _Frame(chart, width, height, left, right, above, 22 if small else 42)


def _grid(frame: _Frame) -> Iterable[Markup]:
    """Yield grid lines, ticks and the names of the axes."""
    chart, left, right = frame.chart, frame.across(0), frame.across(1)
    top, bottom = frame.up(1), frame.up(0)
    rows = chart.shape == "rows"
    for value, words in chart.x.ticks:
        x = frame.x(value)
        yield tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
        yield tag("text", words, x=x, y=bottom + 15, class_="tick mid")
    for value, words in chart.y.ticks:
        y = frame.y(value)
        yield tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
        class_ = "name end" if rows else "tick end"
        yield tag("text", words, x=left - 6, y=y + 4, class_=class_)
    yield tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="base")
    if chart.shape != "small":
        middle = (left + right) / 2, (top + bottom) / 2
        turned = f"translate(12 {middle[1]:.0f}) rotate(-90)"
        yield tag("text", chart.x.label, x=middle[0], y=frame.height - 6, class_="axis mid")
        yield tag("text", chart.y.label, transform=turned, class_="axis mid")


def _words(frame: _Frame) -> Iterable[Markup]:
    """Yield the number in the corner, or that there is nothing to draw."""
    chart = frame.chart
    if chart.empty:
        yield tag("text", chart.empty, x=frame.across(0.5), y=frame.up(0.5), class_="axis mid")
    elif chart.note and chart.shape == "wide":
        yield tag("text", chart.note, x=frame.across(1), y=frame.up(1) - 6, class_="corner end")
    elif chart.note:
        yield tag("text", chart.note, x=frame.across(0) + 6, y=frame.up(1) + 14, class_="corner")


def _draw_bars(mark: marks.Bars, frame: _Frame) -> Markup:
    sides = zip(*mark.corners(), strict=True)
    return join(_box(frame, x0, x1, y0, y1, mark.role) for x0, x1, y0, y1 in sides)


def _box(frame: _Frame, x0: float, x1: float, y0: float, y1: float, class_: str) -> Markup:
    left, right, bottom, top = frame.x(x0), frame.x(x1), frame.y(y0), frame.y(y1)
    return tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_=class_)


def _draw_line(mark: marks.Line, frame: _Frame) -> Markup:
    steps, start = [], True
    for x, y in zip(mark.x, mark.y, strict=True):
        if math.isnan(x) or math.isnan(y):
            start = True
            continue
        steps.append(f"{'M' if start else 'L'}{frame.x(x):.1f},{frame.y(y):.1f}")
        start = False
    return tag("path", d="".join(steps), class_=mark.role) if steps else Markup()


def _draw_dots(mark: marks.Dots, frame: _Frame) -> Markup:
    return join(
        tag("circle", cx=frame.x(x), cy=frame.y(y), r=4.5, class_=mark.role)
        for x, y in zip(mark.x, mark.y, strict=True)
    )


def _draw_texts(mark: marks.Texts, frame: _Frame) -> Markup:
    xs = [frame.x(x) for x in mark.x]
    if min((after - before for before, after in pairwise(xs)), default=_TEXT) < _TEXT:
        return Markup()
    return join(
        tag("text", words, x=x, y=frame.y(y) - 6, class_=f"{mark.role} mid")
        for x, y, words in zip(xs, mark.y, mark.words, strict=True)
    )


def _draw_hover(mark: marks.Hover, frame: _Frame) -> Markup:
    dot = None
    if mark.dot is not None:
        x, y = mark.dot
        dot = tag("circle", cx=frame.x(x), cy=frame.y(y), r=4, class_="dot")
    area = _box(frame, mark.x0, mark.x1, mark.y0, mark.y1, "hit")
    return tag("g", dot, area, data_tip=mark.tip)


def _draw_curve(mark: marks.Curve, frame: _Frame) -> Markup:
    colour, shape = curve_look(mark.number)
    places = [frame.at(mark, place) for place in mark.places]
    shapes = []
    if len(places) > 1:
        path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(tag("path", d=path, class_=f"curve s{colour} d{shape}"))
    for place, (x, y) in zip(mark.places, places, strict=True):
        hit = tag("circle", cx=x, cy=y, r=_REACH, class_="hit")
        whiskers = _whiskers(mark, place, frame) if mark.whiskers else []
        spot = _spot(x, y, mark.number, "spot")
        shapes.append(tag("g", *whiskers, spot, hit, data_tip=_tip(mark, place, frame)))
    return join(shapes)


def _whiskers(curve: marks.Curve, place: marks.Place, frame: _Frame) -> Iterable[Markup]:
    """Yield lines over the known intervals."""
    class_ = f"whisker s{curve_look(curve.number)[0]}"
    x, y = frame.at(curve, place)
    if not math.isnan(place.y_half):
        ends = frame.y(place.y - place.y_half), frame.y(place.y + place.y_half)
        yield tag("line", x1=x, x2=x, y1=ends[0], y2=ends[1], class_=class_)
    if not math.isnan(place.x_half):
        ends = frame.x(place.x - place.x_half), frame.x(place.x + place.x_half)
        yield tag("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_=class_)


def _tip(curve: marks.Curve, place: marks.Place, frame: _Frame) -> str:
    """Name the curve, both values, and the other curves that this point would cover."""
    chart, here = frame.chart, frame.at(curve, place)
    lines = [curve.label]
    sides = ((chart.y.label, place.y, place.y_half), (chart.x.label, place.x, place.x_half))
    for name, value, half in sides:
        digits = 4 if abs(value) < 10 else 1
        known = f"{show(value, digits)} ± {show(half, digits)}"
        lines.append(f"{name} {value:.6g}" if math.isnan(half) else f"{name} {known}")
    near = [
        other.label
        for other in chart.curves
        if other is not curve
        and any(math.dist(frame.at(other, p), here) < _REACH for p in other.places)
    ]
    return "\n".join([*lines, f"Close by: {', '.join(near)}"] if near else lines)


def _names(frame: _Frame) -> Iterable[Markup]:
    """Yield names in a column, near the ends of their curves where there is room."""
    named = named_curves(frame.chart, _LINE / (frame.height - frame.above - frame.below))
    for curve, name, height in named:
        end, x, y = frame.at(curve, curve.places[-1]), frame.across(1) + 24, frame.up(height)
        if len(named) <= FEW:
            yield tag("line", x1=end[0], y1=end[1], x2=x - 14, y2=y - 3.5, class_="leader")
        yield _spot(x - 8, y - 3.5, curve.number, "key")
        yield tag("text", name, x=x, y=y, class_=f"name s{curve_look(curve.number)[0]}")


def _spot(x: float, y: float, number: int, class_: str) -> Markup:
    """Draw a point; after seven curves the colours repeat with another shape."""
    colour, shape = curve_look(number)
    return tag("path", d=f"M{x:.1f},{y:.1f}{_SHAPES[shape]}", class_=f"{class_} s{colour}")


# Kind of mark → the function that draws it.
DRAWERS: Mapping[type[marks.Mark], Callable[[Any, _Frame], Markup]] = {
    marks.Bars: _draw_bars,
    marks.Line: _draw_line,
    marks.Dots: _draw_dots,
    marks.Texts: _draw_texts,
    marks.Hover: _draw_hover,
    marks.Curve: _draw_curve,
}
