"""The figures of a study: F1 against ECE, ECE against depth, strength of a shift, sweeps, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibrant.study.curves import curve_of, curves, describe_width, labels_of, over_seeds
from calibrant.study.grouping import by_setting, by_value, describe_values, group_by, varied
from calibrant.study.head_filter import at_main_depth, at_shared_widths, with_several_depths
from calibrant.study.measures import StudyMeasure, maps_of, measures_of, score_of
from calibrant.study.panels import Curve, Figure, Panel, Place
from calibrant.study.ranks import rank_over
from calibrant.study.runs import Run
from calibrant.study.settings import file_names
from calibrant.study.shift_tables import OTHER, kind_title, measured_on, shift_measures, shifts_of
from calibrant.study.study import Study

__all__ = ["figures_of"]

_WIDE = 4  # Times the least ECE: then the axis is logarithmic, or one method hides all others.
# What only the order of confidences decides: a map hardly changes it, and its picture not at all.
_ORDER_ALONE = ("aurc", "auroc")


def figures_of(study: Study) -> list[Figure]:
    """Make all figures that the records allow; figures over all corpora come first."""
    found: list[Figure | None] = [*_ranks(study)]
    for unit, runs in study.units.items():
        main = at_main_depth(runs)
        found += [
            _trade_off(unit, main, study.by),
            _depth(unit, runs, study.by),
            _sweep(unit, main, study),
            *_shift_figures(unit, main, study.by),
        ]
    figures = [figure for figure in found if figure is not None and figure.panels]
    names = file_names(f"{figure.unit} {figure.name}" for figure in figures)
    return [replace(figure, name=name) for figure, name in zip(figures, names, strict=True)]


def _ranks(study: Study) -> list[Figure]:
    """Make the figures of average ranks, with the critical difference from the best."""
    found = []
    for alike, units in by_setting(study.runs).items():
        runs = [run for corpus in units.values() for run in corpus]
        ranked = rank_over(units, measures_of(runs, study.metrics))
        if ranked is None:
            continue
        panels = []
        for measure, ranking in ranked.by.items():
            order = sorted(zip(ranking.average, ranked.methods, strict=True))
            rows = [
                Curve(method, (Place(rank, float(len(order) - place)),))
                for place, (rank, method) in enumerate(order)
            ]
            width = ranking.critical_difference
            panels.append(
                Panel(measure.title, "Average rank", "", tuple(rows), critical_difference=width)
            )
        title = f"Average rank over {len(ranked.shared)} corpora"
        title += f" ({alike.words})" if alike.words else ""
        found.append(Figure("ranks", title, "", "ranks", tuple(panels)))
    return found


def _trade_off(unit: str, runs: Sequence[Run], by: Sequence[str]) -> Figure | None:
    """Make panels of the methods of every network, or of the networks of one method.

    None for a single point, which has no counterpart.
    """
    shown = at_shared_widths(runs)
    keys = varied([shown]) if len({run.method for run in shown}) > 1 else []
    if len(group_by(shown, labels_of(shown, by))) < 2:
        return None
    label = labels_of(shown, by, without=keys)
    names = list(group_by(shown, label))
    f1 = score_of(runs)
    panels = []
    for values, members in by_value(shown, keys).items():
        cells = group_by(members, label)
        for map_ in maps_of(runs):
            measures = StudyMeasure("ece", map_), replace(f1, map=map_)
            # A name has one colour in all panels, so it has its turn where it has no runs.
            points = tuple(_point(name, cells.get(name, ()), *measures) for name in names)
            title = ", ".join(filter(None, [_map_title(map_), describe_values(values)]))
            panels += [_weighed(title, f1.title, points)] if any(p.places for p in points) else []
    name = f"{f1.title[0].upper()}{f1.title[1:]}"
    title = f"{name} against ECE on {unit}{describe_width(shown, runs)}"
    return Figure("trade-off", title, unit, "points", tuple(panels))


def _point(label: str, cell: Sequence[Run], ece: StudyMeasure, score: StudyMeasure) -> Curve:
    if not cell:
        return Curve(label, ())
    x, y = over_seeds(cell, ece), over_seeds(cell, score)
    known = math.isfinite(x.mean) and math.isfinite(y.mean)
    return Curve(label, (Place(x.mean, y.mean, x.half, y.half),) if known else ())


def _weighed(title: str, score: str, points: tuple[Curve, ...]) -> Panel:
    values = [place.x for point in points for place in point.places]
    wide = min(values) > 0 and max(values) / min(values) >= _WIDE
    return Panel(title, "ECE", score, points, wide)


def _depth(unit: str, runs: Sequence[Run], by: Sequence[str]) -> Figure | None:
    runs = with_several_depths(runs)
    widths, named = {run.width for run in runs}, labels_of(runs, by)

    def label(run: Run) -> str:
        name = named(run)
        return name if len(widths) == 1 else f"{name}, width {run.width}"

    panels = [
        Panel(
            _map_title(measure.map),
            "Depth of the head",
            "ECE",
            curves(runs, measure, label, lambda run: run.depth),
        )
        for measure in measures_of(runs, ("ece",))
    ]
    title = f"ECE against the depth of the head on {unit}"
    return Figure("depth", title, unit, "lines", tuple(panels))


def _sweep(unit: str, runs: Sequence[Run], study: Study) -> Figure | None:
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
    panels = [
        Panel(
            measure.title,
            key.replace("_", " "),
            measure.title,
            curves(runs, measure, label, lambda run: float(run.by[place])),
            logarithmic,
        )
        for measure in measures_of(runs, study.metrics)
    ]
    title = f"By {key.replace('_', ' ')} on {unit}"
    return Figure(key, title, unit, "lines", tuple(panels))


def _map_title(map_: str) -> str:
    return "As trained" if map_ == "identity" else f"With {map_.replace('_', ' ')}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shift_figures(unit: str, runs: Sequence[Run], by: Sequence[str] = ()) -> list[Figure]:
    """Make one figure per kind of corruption with several strengths."""
    found = []
    for kind, shift in shifts_of(runs).items():
        if kind == OTHER or len(shift) < 3:  # One strength makes no line.
            continue
        whole = measured_on(runs, shift)
        measured = at_shared_widths(whole)
        panels = []
        for measure in shift_measures(measured, shift):
            if measure.map != "identity" and measure.metric in _ORDER_ALONE:
                continue
            lines = []
            for label, cell in group_by(measured, labels_of(measured, by)).items():
                places = [
                    (float(strength), over_seeds(cell, replace(measure, part=part)))
                    for strength, part in shift.items()
                ]
                lines.append(curve_of(label, places))
            panels.append(Panel(measure.title, "Strength", measure.title, tuple(lines)))
        title = f"{kind_title(kind)} of growing strength, trained on {unit}"
        title += describe_width(measured, whole)
        found.append(Figure(f"shift-{kind}", title, unit, "lines", tuple(panels)))
    return found
