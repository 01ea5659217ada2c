"""The figures of a study: F1 against ECE, ECE against depth, strength of a shift, sweeps, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibrant.study.curves import curves, grouped, labels_of, over_seeds, told_width
from calibrant.study.labels import file_names
from calibrant.study.main_head import at_main_depth, at_shared_widths, with_several_depths
from calibrant.study.measures import Measure, maps_of, measures_of, score_of
from calibrant.study.panels import Curve, Figure, Panel, Place
from calibrant.study.rank_table import rank_over
from calibrant.study.runs import Run
from calibrant.study.shift_figures import shift_figures
from calibrant.study.study import Study
from calibrant.study.units import by_setting

__all__ = ["figures_of"]

_WIDE = 4  # Times the least ECE: then the axis is logarithmic, or one method hides all others.


def figures_of(study: Study) -> list[Figure]:
    """All that the records allow, those over all corpora first."""
    found: list[Figure | None] = [*_ranks(study)]
    for unit, runs in study.units.items():
        main = at_main_depth(runs)
        found += [
            _trade_off(unit, main, study.by),
            _depth(unit, runs, study.by),
            _sweep(unit, main, study),
            *shift_figures(unit, main, study.by),
        ]
    figures = [figure for figure in found if figure is not None and figure.panels]
    names = file_names(f"{figure.unit} {figure.name}" for figure in figures)
    return [replace(figure, name=name) for figure, name in zip(figures, names, strict=True)]


def _ranks(study: Study) -> list[Figure]:
    """Average ranks, with the critical difference from the best."""
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
    """None of one point: there is nothing to weigh it against."""
    shown = at_shared_widths(runs)
    cells = grouped(shown, labels_of(shown, by))
    if len(cells) < 2:
        return None
    f1 = score_of(runs)
    panels = []
    for map_ in maps_of(runs):
        ece, score = Measure("ece", map_), replace(f1, map=map_)
        points = []
        for label, cell in cells.items():
            x, y = (over_seeds(cell, measure) for measure in (ece, score))
            if math.isfinite(x.mean) and math.isfinite(y.mean):
                place = Place(x.mean, y.mean, x.half, y.half)
                points.append(Curve(label, (place,)))
        if points:
            values = [point.places[0].x for point in points]
            wide = min(values) > 0 and max(values) / min(values) >= _WIDE
            panels.append(Panel(_map_title(map_), "ECE", f1.title, tuple(points), wide))
    name = f"{f1.title[0].upper()}{f1.title[1:]}"
    title = f"{name} against ECE on {unit}{told_width(shown, runs)}"
    return Figure("trade-off", title, unit, "points", tuple(panels))


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
    """Every measure against the one key asked for that has several numbers."""
    numeric = [
        place
        for place in range(len(study.by))
        if len({run.by[place] for run in runs if _is_number(run.by[place])}) > 1
    ]
    if len(numeric) != 1:
        return None
    place, key = numeric[0], study.by[numeric[0]]
    runs = [run for run in runs if _is_number(run.by[place])]
    label = labels_of(runs, study.by, without=key)
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
