"""The diagrams of many runs: methods as points, lines and ranks, and copies of corrupted data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.arguments import check_each, check_kind
from calibrant.charts.axes import value_axis
from calibrant.charts.chart import Axis, Curve, Place
from calibrant.charts.comparison import curve_chart
from calibrant.errors import InputError
from calibrant.plots.drawing import draw_chart, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "Series", "series_diagram", "shift_diagram", "trade_off"]


class Series(NamedTuple):
    """A line: its values at ``x`` and half of the interval of each (NaN: unknown).

    >>> line = Series("focal", x=[1, 2, 4], y=[0.03, 0.02, 0.02], half=[0.01, 0.01, 0.01])
    >>> series_diagram([line], x_label="Layers", y_label="ECE").get_ylabel()
    'ECE'
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float]


class Point(NamedTuple):
    """A method: its ECE and F1 as shares, and half of the interval of each (NaN: unknown).

    >>> point = Point("focal", ece=0.02, f1=0.81, ece_half=0.004)
    >>> trade_off([point]).get_ylabel()
    'F1 (%), more is better'
    """

    label: str
    ece: float
    f1: float
    ece_half: float = math.nan
    f1_half: float = math.nan


def series_diagram(
    series: Sequence[Series],
    ax: Axes | None = None,
    *,
    x_label: str,
    y_label: str,
    title: str | None = None,
    logarithmic: bool = False,
) -> Axes:
    """Draw the lines with their intervals, each with its label at its end.

    >>> line = Series("focal", [1, 2], [0.02, 0.03], [0.01, 0.01])
    >>> series_diagram([line], x_label="Depth", y_label="ECE").get_xlabel()
    'Depth'
    """
    check_each("series_diagram", series, Series)
    curves = [_curve(line, logarithmic) for line in series if len(line.x)]
    chart = curve_chart(curves, x_label, y_label, title=title or "", logarithmic=logarithmic)
    return draw_chart(chart, ax)


def _curve(line: Series, logarithmic: bool) -> Curve:
    who = f"series_diagram cannot draw '{line.label}'"
    if not all(map(math.isfinite, (*line.x, *line.y))):
        raise InputError(f"{who}: a value is not finite.")
    if logarithmic and min(line.x) <= 0:
        raise InputError(f"{who}: a logarithmic axis needs values above 0, got {min(line.x)}.")
    parts = zip(line.x, line.y, line.half, strict=True)
    return Curve(line.label, tuple(Place(x, y, math.nan, half) for x, y, half in parts))


def trade_off(
    points: Sequence[Point],
    ax: Axes | None = None,
    *,
    title: str | None = None,
    score: str = "F1",
) -> Axes:
    """Draw F1 against ECE, both in per cent, with their intervals as crosses.

    The labels are in a column next to the axes, in the order of F1, so that they cover nothing.
    APCR = F1² / ECE rises to the upper left. ``score`` is the axis name if the number is not F1.

    >>> trade_off([Point("focal", 0.02, 0.8), Point("mixup", 0.03, 0.81)]).get_xlabel()
    'ECE (%), less is better'
    """
    check_each("trade_off", points, Point)
    for p in points:
        if not (math.isfinite(p.ece) and math.isfinite(p.f1)):
            raise InputError(f"trade_off cannot draw '{p.label}': ECE {p.ece}, F1 {p.f1}.")
    curves = [Curve(p.label, (Place(*(100 * value for value in p[1:])),)) for p in points]
    labels = "ECE (%), less is better", f"{score} (%), more is better"
    return draw_chart(curve_chart(curves, *labels, title=title or ""), ax)


def shift_diagram(
    results: Mapping[str, Any],
    score: str = "accuracy",
    score_name: str = "Accuracy",
    mapped: str = "temperature",
) -> Figure:
    """Draw three panels: the score, and the ECE as trained and calibrated; one line per kind.

    ``results`` are those of :func:`calibrant.experiments.evaluation.evaluate` or of a record:
    ``{calibrator: {"test": …, "shift": {"typos-1": …}}}``. Strength 0 is the clean test.

    >>> numbers = {"accuracy": 0.9, "ece": 0.05}
    >>> part = {"test": numbers, "shift": {"typos-5": {"accuracy": 0.6, "ece": 0.2}}}
    >>> figure = shift_diagram({"identity": part, "temperature": part})
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['Accuracy', 'ECE as trained', 'ECE with temperature']
    """
    check_kind("shift_diagram", results, dict)
    for kind in ("identity", mapped):
        if kind not in results:
            raise InputError(f"shift_diagram needs the results of calibrator '{kind}', got none.")
    raw, cooled = (_kinds(results[kind], "ece") for kind in ("identity", mapped))
    # One scale makes the two comparable.
    places = [place for curve in (*raw, *cooled) for place in curve.places]
    both = value_axis("ECE", max((place.y for place in places), default=1.0))
    panels: list[tuple[str, list[Curve], Axis | None]] = [
        (score_name, _kinds(results["identity"], score), None),
        ("ECE as trained", raw, both),
        (f"ECE with {mapped}", cooled, both),
    ]
    figure = new_figure(10.5, 3.2)
    for place, (title, curves, y) in enumerate(panels, start=1):
        label = score_name if y is None else y.label
        chart = curve_chart(curves, "Strength", label, title=title, y=y)
        draw_chart(chart, figure.add_subplot(1, len(panels), place))
    return figure


def _kinds(part: Mapping[str, Any], metric: str) -> list[Curve]:
    """Return a curve per kind of corruption, from the clean test to the strongest."""
    found: dict[str, dict[int, float]] = {}
    for name, numbers in part.get("shift", {}).items():
        kind, _, strength = name.rpartition("-")
        if kind and strength in "12345" and math.isfinite(numbers[metric]):
            found.setdefault(kind, {0: part["test"][metric]})[int(strength)] = numbers[metric]
    return [
        Curve(kind, tuple(Place(x, places[x]) for x in sorted(places)))
        for kind, places in found.items()
    ]
