"""All corpora side by side: methods × widths in rows."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.study.best import best_alike
from calibrant.study.estimate import estimate
from calibrant.study.measures import Measure
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table, grouped
from calibrant.study.units import Units, methods_of

__all__ = ["wide_table"]

Place = tuple[str, int]

_BOLD = (
    " Bold: the best mean of a width, and what the paired t-test over seeds cannot tell from it "
    "(5 %, Holm-corrected)."
)


def wide_table(units: Units, measures: Sequence[Measure], map_: str) -> Table | None:
    """Means over seeds of every corpus after one map; None where no measure has that map."""
    shown = [measure for measure in measures if measure.map == map_]
    runs = [run for members in units.values() for run in members]
    if not shown:
        return None
    methods = {label: place for place, label in enumerate(methods_of(units))}
    places = sorted({(r.method, r.width) for r in runs}, key=lambda p: (methods[p[0]], p[1]))
    columns = {
        (unit, measure): _column(members, measure, places)
        for unit, members in units.items()
        for measure in shown
    }
    rows = [
        Row(
            (method, str(width)),
            tuple(column[method, width] for column in columns.values()),
            tuple(sorted(r.key for r in runs if (r.method, r.width) == (method, width))),
        )
        for method, width in places
    ]
    compared = len(methods) > 1
    return Table(
        f"all-corpora-{map_}",
        "All corpora side by side"
        + ("" if map_ == "identity" else f", with {map_.replace('_', ' ')}"),
        ("method", "width"),
        tuple(measure.title for _, measure in columns),
        grouped(rows),
        "Means over seeds; the tables of each corpus have the intervals."
        + (_BOLD if compared else ""),
        measures=tuple(measure.to_dict() for measure in shown),
        groups=tuple((unit, len(shown)) for unit in units),
    )


def _column(runs: Sequence[Run], measure: Measure, places: Sequence[Place]) -> dict[Place, Entry]:
    values: dict[Place, dict[object, float]] = {place: {} for place in places}
    for run in runs:
        values[run.method, run.width][run.extra, run.seed] = measure.of(run)
    column = {place: Entry("") for place in places}
    for width in {width for _, width in places}:
        there = [place for place in places if place[1] == width and values[place]]
        marked = best_alike([values[place] for place in there], measure.sign) if there else []
        for place, bold in zip(there, marked, strict=True):
            found = estimate(list(values[place].values()))
            text = found._replace(half=float("nan")).show(measure.digits)
            entry = Entry(text, found.mean, found.half, found.n, bold and len(there) > 1)
            column[place] = entry
    return column
