"""Curves of figures from runs: one place per value, with its interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from calibrant.charts.chart import Curve, Place
from calibrant.study.grouping import group_by
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.settings import settings_label, value_label
from calibrant.study.statistics import Estimate, estimate

__all__ = ["curve_of", "curves", "describe_width", "labels_of", "over_seeds"]


def curves(
    runs: Sequence[Run],
    measure: StudyMeasure,
    label: Callable[[Run], str],
    x: Callable[[Run], float],
) -> tuple[Curve, ...]:
    """Make a curve per label, against ``x(run)``."""
    found = []
    for name, cell in group_by(runs, label).items():
        by_x = group_by(cell, x)
        places = [(value, over_seeds(by_x[value], measure)) for value in sorted(by_x)]
        found.append(curve_of(name, places))
    return tuple(found)


def curve_of(label: str, places: Iterable[tuple[float, Estimate]]) -> Curve:
    """Make a curve of the finite estimates."""
    return Curve(
        label,
        tuple(
            Place(float(x), found.mean, math.nan, found.half)
            for x, found in places
            if math.isfinite(found.mean)
        ),
    )


def labels_of(
    runs: Sequence[Run], by: Sequence[str], without: Collection[str] = ()
) -> Callable[[Run], str]:
    """Return a function that labels curves by what differs: methods and requested keys.

    A word ("lenet") needs no key; a number does ("batch 3"). The keys ``without`` are
    shown elsewhere.
    """
    methods = {run.shown for run in runs}
    differing = [
        place
        for place, key in enumerate(by)
        if key not in without and len({value_label(run.by[place]) for run in runs}) > 1
    ]

    def label(run: Run) -> str:
        parts = [run.shown] if len(methods) > 1 else []
        for place in differing:
            value = run.by[place]
            if value is not None:
                parts.append(
                    value if isinstance(value, str) else settings_label({by[place]: value})
                )
        return ", ".join(parts) or run.shown

    return label


def over_seeds(runs: Sequence[Run], measure: StudyMeasure) -> Estimate:
    """Average over the widths of each seed, then estimate over seeds.

    As in the tables, only seeds that were run at every width count; all seeds if there are none.
    """
    widths = {run.width for run in runs}
    seeds = list(group_by(runs, lambda run: run.seed).values())
    complete = [each for each in seeds if {run.width for run in each} == widths]
    return estimate([sum(map(measure.of, each)) / len(each) for each in complete or seeds])


def describe_width(shown: Sequence[Run], runs: Sequence[Run]) -> str:
    """Return the width of the runs shown, for a title; "" if all runs are shown."""
    return f", width {shown[0].width}" if len(shown) < len(runs) else ""
