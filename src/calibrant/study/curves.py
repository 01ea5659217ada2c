"""Curves of figures from runs: a place per value, with the interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from calibrant.study.grouping import group_by
from calibrant.study.measures import StudyMeasure
from calibrant.study.panels import Curve, Place
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
    """One per label, against what ``x`` says of a run."""
    found = []
    for name, cell in group_by(runs, label).items():
        by_x = group_by(cell, x)
        places = [(value, over_seeds(by_x[value], measure)) for value in sorted(by_x)]
        found.append(curve_of(name, places))
    return tuple(found)


def curve_of(label: str, places: Iterable[tuple[float, Estimate]]) -> Curve:
    """The places that are numbers."""
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
    """What sets the curves of a figure apart: methods, and the keys asked for, where they differ.

    A word ("lenet") says what it is; a number needs its key ("batch 3"). The keys ``without``
    have a place of their own.
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
    """Each seed's mean (over widths, where there are several), then that of the seeds.

    As in the tables, of the seeds that were run at every width; of all where none was.
    """
    widths = {run.width for run in runs}
    seeds = list(group_by(runs, lambda run: run.seed).values())
    complete = [each for each in seeds if {run.width for run in each} == widths]
    return estimate([sum(map(measure.of, each)) / len(each) for each in complete or seeds])


def describe_width(shown: Sequence[Run], runs: Sequence[Run]) -> str:
    """For a title, of which width the runs shown are; "" where they are all."""
    return f", width {shown[0].width}" if len(shown) < len(runs) else ""
