"""The charts of many runs: methods as points or lines with intervals, and their average ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibrant.charts.axes import fit_axis
from calibrant.charts.chart import FEW, Axis, Bars, Chart, Curve, Dots, Hover, short_name

__all__ = ["curve_chart", "rank_chart"]


def curve_chart(
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    *,
    title: str = "",
    logarithmic: bool = False,
    y: Axis | None = None,
) -> Chart:
    """Chart one curve or point per method. A name keeps its colour even where it has no places.

    With more than :data:`FEW` lines, no intervals are drawn: they would cover each other. Fewer
    lines move a little sideways for the same reason. ``y`` is an axis to share with other charts.
    """
    lines = any(len(curve.places) > 1 for curve in curves)
    few = len(curves) <= FEW
    marks = [
        replace(
            curve,
            number=number,
            whiskers=few or not lines,
            aside=number - (len(curves) - 1) / 2 if lines and few else 0.0,
        )
        for number, curve in enumerate(curves)
    ]
    drawn = [mark for mark in marks if mark.places]
    described = f"{y_label} against {x_label} of {len(drawn)} methods."
    if not drawn:
        bare = Axis(x_label, 0, 1), Axis(y_label, 0, 1)
        return Chart(*bare, tuple(marks), title, "No values.", "curves", empty="no values")
    places = [place for curve in drawn for place in curve.places]
    x = fit_axis(
        x_label,
        [place.x for place in places],
        [place.x_half for place in places],
        logarithmic=logarithmic,
        at_values=lines,
    )
    halves = [place.y_half if few or not lines else math.nan for place in places]
    y = y or fit_axis(y_label, [place.y for place in places], halves)
    return Chart(x, y, tuple(marks), title, described, "curves")


def rank_chart(ranks: Mapping[str, float], critical_difference: float, *, title: str = "") -> Chart:
    """Chart average ranks, one row per method, the best on top.

    The band reaches one critical difference from the best: it is the part of Demšar's (2006)
    diagram that concerns the best method.
    """
    label = "Average rank, less is better"
    order = sorted(ranks, key=lambda method: (ranks[method], method), reverse=True)
    if not order:
        return Chart(Axis(label, 0, 1), Axis("", 0, 1), (), title, shape="rows", empty="no methods")
    found, rows = np.array([ranks[method] for method in order]), np.arange(len(order))
    low, high, best = 0.8, len(order) + 0.2, float(found.min())
    band = Bars("band", best, min(best + critical_difference, high), -0.5, len(order) - 0.5)
    hovers = [
        Hover(
            f"{method}\nAverage rank {rank:.2f}\n" + _verdict(rank - best < critical_difference),
            low,
            high,
            row - 0.5,
            row + 0.5,
            (float(rank), float(row)),
        )
        for method, rank, row in zip(order, found, rows, strict=True)
    ]
    return Chart(
        Axis(label, low, high, _whole_ticks(len(order))),
        Axis(
            "",
            -0.5,
            len(order) - 0.5,
            tuple((row, short_name(method)) for row, method in enumerate(order)),
        ),
        (band, Dots("rank", found, rows), *reversed(hovers)),
        title,
        f"{len(order)} methods, the best with rank {best:.2f}.",
        "rows",
    )


def _verdict(near: bool) -> str:
    return "Not significantly worse than the best" if near else "Worse than the best"


def _whole_ticks(count: int) -> tuple[tuple[float, str], ...]:
    """Return ticks at whole ranks, at most about a dozen."""
    step = -(-count // 12)
    return tuple((float(rank), str(rank)) for rank in range(1, count + 1, step))
