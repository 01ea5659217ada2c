"""The figures of a study as inline SVG: points that answer a hover, lines with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.plots.trade_off import spaced
from calibrant.report.chart import Chart
from calibrant.report.markup import Markup, tag
from calibrant.study.estimate import show
from calibrant.study.figures import Curve, Panel, Place

__all__ = ["draw_panel", "round_steps"]

_WIDTH, _HEIGHT, _NAMES = 560, 330, 200
_COLOURS, _DASHES = 7, 4
_LINE = 13  # Units from one name to the next.


@dataclass(frozen=True)
class _Axis:
    """Data to the unit interval, and the steps to write beside it."""

    low: float
    high: float
    steps: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        value = math.log10(value) if self.logarithmic else value
        return (value - self.low) / (self.high - self.low)


def draw_panel(panel: Panel, figure: str) -> Markup:
    """One pair of axes with the names of its curves beside."""
    chart = Chart(_WIDTH, _HEIGHT, left=58, right=_NAMES, above=14)
    places = [place for curve in panel.curves for place in curve.places]
    label = f"{figure}, {panel.title}"
    if not places:
        return chart.svg(label, "No values.", chart.text(0.5, 0.5, "no values", "axis mid"))
    across = _axis([p.x for p in places], [p.x_half for p in places], panel.logarithmic)
    up = _axis([p.y for p in places], [p.y_half for p in places])
    shapes = [
        chart.labels(panel.x_label, panel.y_label),
        chart.grid(
            [(across(value), words) for value, words in across.steps],
            [(up(value), words) for value, words in up.steps],
        ),
        *_names(chart, panel.curves, across, up),
        *(
            shape
            for number, curve in enumerate(panel.curves)
            for shape in _curve(chart, curve, number, panel, across, up)
        ),
    ]
    said = f"{panel.y_label} against {panel.x_label} of {len(panel.curves)} methods."
    return chart.svg(label, said, *shapes)


def _curve(
    chart: Chart, curve: Curve, number: int, panel: Panel, across: _Axis, up: _Axis
) -> list[Markup]:
    colour, dash = f"s{number % _COLOURS}", f"d{number // _COLOURS % _DASHES}"
    shapes = []
    if len(curve.places) > 1:
        xs, ys = [across(p.x) for p in curve.places], [up(p.y) for p in curve.places]
        shapes.append(chart.path(xs, ys, f"curve {colour} {dash}"))
    for place in curve.places:
        x, y = across(place.x), up(place.y)
        spot = tag("circle", cx=chart.x(x), cy=chart.y(y), r=4.5, class_=f"spot {colour}")
        hit = tag("circle", cx=chart.x(x), cy=chart.y(y), r=9, class_="hit")
        tip = _tip(curve.label, place, panel)
        whiskers = _whiskers(chart, place, across, up, colour)
        shapes.append(tag("g", *whiskers, spot, hit, data_tip=tip))
    return shapes


def _whiskers(chart: Chart, place: Place, across: _Axis, up: _Axis, colour: str) -> list[Markup]:
    shapes, x, y = [], across(place.x), up(place.y)
    if not math.isnan(place.y_half):
        low, high = (min(max(up(place.y + s * place.y_half), 0), 1) for s in (-1, 1))
        shapes.append(chart.line(x, x, low, high, f"whisker {colour}"))
    if not math.isnan(place.x_half):
        low, high = (min(max(across(place.x + s * place.x_half), 0), 1) for s in (-1, 1))
        shapes.append(chart.line(low, high, y, y, f"whisker {colour}"))
    return shapes


def _tip(label: str, place: Place, panel: Panel) -> str:
    lines = [label]
    sides = (
        (panel.y_label, place.y, place.y_half),
        (panel.x_label, place.x, place.x_half),
    )
    for name, value, half in sides:
        digits = 4 if abs(value) < 10 else 1
        spread = "" if math.isnan(half) else f" ± {show(half, digits)}"
        shown = show(value, digits) if name != panel.x_label or spread else f"{value:g}"
        lines.append(f"{name} {shown}{spread}")
    return "\n".join(lines)


def _names(chart: Chart, curves: Sequence[Curve], across: _Axis, up: _Axis) -> list[Markup]:
    """The names in a column, as high as the ends of their curves as far as there is room."""
    drawn = [(number, curve) for number, curve in enumerate(curves) if curve.places]
    drawn.sort(key=lambda item: item[1].places[-1].y)
    gap = _LINE / (chart.height - chart.above - chart.below)
    heights = spaced([up(curve.places[-1].y) for _, curve in drawn], gap)
    shapes = []
    for (number, curve), height in zip(drawn, heights, strict=True):
        end = curve.places[-1]
        x, y = chart.x(1) + 10, chart.y(height)
        colour = f"s{number % _COLOURS}"
        text = curve.label if len(curve.label) <= 34 else curve.label[:33] + "…"
        shapes += [
            tag("line", x1=chart.x(across(end.x)), y1=chart.y(up(end.y)), x2=x - 3, y2=y - 3,
                class_="leader"),
            tag("text", text, x=x, y=y, class_=f"name {colour}"),
        ]  # fmt: skip
    return shapes


def _axis(values: Sequence[float], halves: Sequence[float], logarithmic: bool = False) -> _Axis:
    """An axis that holds all values, and their intervals as far as these do not dwarf them."""
    if logarithmic:
        logs = [math.log10(value) for value in values]
        low, high = min(logs) - 0.1, max(logs) + 0.1
        exact = tuple((value, f"{value:g}") for value in sorted(set(values)))
        return _Axis(low, high, exact, True)
    room = 1.5 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
    known = [0.0 if math.isnan(half) else min(half, room) for half in halves]
    low = min(value - half for value, half in zip(values, known, strict=True))
    high = max(value + half for value, half in zip(values, known, strict=True))
    if min(values) >= 0:  # No share is below 0, whatever its interval.
        low = max(low, 0.0)
    margin = 0.05 * (high - low) or 0.05
    low, high = low - margin, high + margin
    steps = round_steps(low, high)
    digits = max(0, -math.floor(math.log10(steps[1] - steps[0]) + 1e-9)) if len(steps) > 1 else 2
    fine = [(step, f"{step:.{digits}f}") for step in steps]
    return _Axis(low, high, tuple(fine))


def round_steps(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values between ``low`` and ``high``.

    >>> round_steps(0.42, 0.53)
    [0.42, 0.44, 0.46, 0.48, 0.5, 0.52]
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]
