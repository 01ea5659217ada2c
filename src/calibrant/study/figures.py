"""The figures of a study: F1 against ECE, ECE against depth, strength of a shift, sweeps, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.charts.chart import FEW, Chart, Curve, Place
from calibrant.charts.comparison import curve_chart, rank_chart
from calibrant.study.curves import curve_of, curves, describe_width, labels_of, over_seeds
from calibrant.study.grouping import (
    at_main_depth,
    at_shared_widths,
    by_setting,
    by_value,
    describe_values,
    group_by,
    varied,
    with_several_depths,
)
from calibrant.study.measures import StudyMeasure, calibrators_of, measures_of, score_of
from calibrant.study.ranks import rank_over
from calibrant.study.runs import Run
from calibrant.study.settings import file_names
from calibrant.study.shift_tables import OTHER, kind_title, measured_on, shift_measures, shifts_of
from calibrant.study.study import Study

__all__ = ["StudyFigure", "figures_of"]

_WIDE = 4  # Times the least ECE: then the axis is logarithmic, or one method hides all others.
# Only the order of confidences decides these: a calibrator hardly changes them.
_ORDER_ALONE = ("aurc", "auroc")
_POINTS = (
    "Whiskers are 95 % t-intervals over seeds, cut where they leave the axes; each seed is "
    "averaged over head widths."
)
_LINES = (
    f"{_POINTS} Lines are moved a little sideways so that their intervals do not overlap; with "
    f"more than {FEW} lines, intervals are only in the tables and the tips."
)
_RANKS = (
    "The band reaches one critical difference from the best; methods in it do not differ "
    "significantly from the best."
)


@dataclass(frozen=True)
class StudyFigure:
    """One or more charts side by side, with a note that explains them."""

    name: str
    title: str
    unit: str
    charts: tuple[Chart, ...]
    note: str


def figures_of(study: Study) -> list[StudyFigure]:
    """Make all figures that the records allow; figures over all corpora come first."""
    found: list[StudyFigure | None] = [*_ranks(study)]
    for unit, runs in study.units.items():
        main = at_main_depth(runs)
        found += [
            _trade_off(unit, main, study.by),
            _depth(unit, runs, study.by),
            _sweep(unit, main, study),
            *_shift_figures(unit, main, study.by),
        ]
    figures = [figure for figure in found if figure is not None and figure.charts]
    names = file_names(f"{figure.unit} {figure.name}" for figure in figures)
    return [replace(figure, name=name) for figure, name in zip(figures, names, strict=True)]


def _ranks(study: Study) -> list[StudyFigure]:
    """Make the figures of average ranks, with the critical difference from the best."""
    found = []
    for alike, units in by_setting(study.runs).items():
        runs = [run for corpus in units.values() for run in corpus]
        ranked = rank_over(units, measures_of(runs, study.metrics))
        if ranked is None:
            continue
        charts = [
            rank_chart(
                dict(zip(ranked.methods, ranking.average, strict=True)),
                ranking.critical_difference,
                title=measure.title,
            )
            for measure, ranking in ranked.by.items()
        ]
        title = f"Average rank over {len(ranked.shared)} corpora"
        title += f" ({alike.words})" if alike.words else ""
        found.append(StudyFigure("ranks", title, "", tuple(charts), _RANKS))
    return found


def _trade_off(unit: str, runs: Sequence[Run], by: Sequence[str]) -> StudyFigure | None:
    """Make charts of the methods of every network, or of the networks of one method.

    None for a single point, which has no counterpart.
    """
    shown = at_shared_widths(runs)
    keys = varied([shown]) if len({run.method for run in shown}) > 1 else []
    if len(group_by(shown, labels_of(shown, by))) < 2:
        return None
    label = labels_of(shown, by, without=keys)
    names = list(group_by(shown, label))
    f1 = score_of(runs)
    charts = []
    for values, members in by_value(shown, keys).items():
        cells = group_by(members, label)
        for calibrator in calibrators_of(runs):
            measures = StudyMeasure("ece", calibrator), replace(f1, calibrator=calibrator)
            # A name has one colour in all charts, so it has its turn where it has no runs.
            points = [_point(name, cells.get(name, ()), *measures) for name in names]
            title = ", ".join(
                filter(None, [_calibrator_title(calibrator), describe_values(values)])
            )
            charts += [_weighed(title, f1.title, points)] if any(p.places for p in points) else []
    name = f"{f1.title[0].upper()}{f1.title[1:]}"
    title = f"{name} against ECE on {unit}{describe_width(shown, runs)}"
    return StudyFigure("trade-off", title, unit, tuple(charts), _POINTS)


def _point(label: str, cell: Sequence[Run], ece: StudyMeasure, score: StudyMeasure) -> Curve:
    if not cell:
        return Curve(label, ())
    x, y = over_seeds(cell, ece), over_seeds(cell, score)
    known = math.isfinite(x.mean) and math.isfinite(y.mean)
    return Curve(label, (Place(x.mean, y.mean, x.half, y.half),) if known else ())


def _weighed(title: str, score: str, points: Sequence[Curve]) -> Chart:
    values = [place.x for point in points for place in point.places]
    wide = min(values) > 0 and max(values) / min(values) >= _WIDE
    return curve_chart(points, "ECE", score, title=title, logarithmic=wide)


def _depth(unit: str, runs: Sequence[Run], by: Sequence[str]) -> StudyFigure | None:
    runs = with_several_depths(runs)
    widths, named = {run.width for run in runs}, labels_of(runs, by)

    def label(run: Run) -> str:
        name = named(run)
        return name if len(widths) == 1 else f"{name}, width {run.width}"

    charts = [
        curve_chart(
            curves(runs, measure, label, lambda run: run.depth),
            "Depth of the head",
            "ECE",
            title=_calibrator_title(measure.calibrator),
        )
        for measure in measures_of(runs, ("ece",))
    ]
    title = f"ECE against the depth of the head on {unit}"
    return StudyFigure("depth", title, unit, tuple(charts), _LINES)


def _sweep(unit: str, runs: Sequence[Run], study: Study) -> StudyFigure | None:
    """Plot every measure against the one requested key that has several numbers."""
    numeric = [
        place
        for place in range(len(study.by))
        if len({run.by[place] for run in runs if _is_number(run.by[place])}) > 1
    ]
    if len(numeric) != 1:
        return None
    place, key = numeric[0], study.by[numeric[0]]
    runs = [run for run in runs if _is_number(run.by[place])]
    label = labels_of(runs, study.by, without=[key])
    values = [float(run.by[place]) for run in runs]
    logarithmic = min(values) > 0 and max(values) / min(values) >= 20
    charts = [
        curve_chart(
            curves(runs, measure, label, lambda run: float(run.by[place])),
            key.replace("_", " "),
            measure.title,
            title=measure.title,
            logarithmic=logarithmic,
        )
        for measure in measures_of(runs, study.metrics)
    ]
    title = f"By {key.replace('_', ' ')} on {unit}"
    return StudyFigure(key, title, unit, tuple(charts), _LINES)


def _calibrator_title(calibrator: str) -> str:
    return "As trained" if calibrator == "identity" else f"With {calibrator.replace('_', ' ')}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shift_figures(unit: str, runs: Sequence[Run], by: Sequence[str] = ()) -> list[StudyFigure]:
    """Make one figure per kind of corruption with several strengths."""
    found = []
    for kind, shift in shifts_of(runs).items():
        if kind == OTHER or len(shift) < 3:  # One strength makes no line.
            continue
        whole = measured_on(runs, shift)
        measured = at_shared_widths(whole)
        charts = []
        for measure in shift_measures(measured, shift):
            if measure.calibrator != "identity" and measure.metric in _ORDER_ALONE:
                continue
            lines = []
            for label, cell in group_by(measured, labels_of(measured, by)).items():
                places = [
                    (float(strength), over_seeds(cell, replace(measure, part=part)))
                    for strength, part in shift.items()
                ]
                lines.append(curve_of(label, places))
            charts.append(curve_chart(lines, "Strength", measure.title, title=measure.title))
        title = f"{kind_title(kind)} of growing strength, trained on {unit}"
        title += describe_width(measured, whole)
        found.append(StudyFigure(f"shift-{kind}", title, unit, tuple(charts), _LINES))
    return found
