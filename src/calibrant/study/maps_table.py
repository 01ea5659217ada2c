"""Every post-hoc map side by side: ECE and APCR of each method after each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.study.best import best_alike
from calibrant.study.estimate import estimate
from calibrant.study.main_head import at_main_width
from calibrant.study.measures import Measure, maps_of
from calibrant.study.rows import asked_heads, by_method, rows_of
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Table

__all__ = ["maps_table"]


def maps_table(runs: Sequence[Run], shown: Sequence[str], by: Sequence[str]) -> Table | None:
    """A row per method at the main width; None where the other tables have all maps."""
    runs, maps = at_main_width(runs), maps_of(runs)
    metrics = [
        metric for metric in ("ece", "apcr")
        if any(not math.isnan(run.value(metric, map_)) for run in runs for map_ in maps)
    ]  # fmt: skip
    if set(maps) <= set(shown) or not metrics:
        return None
    cells = by_method(runs)
    rows = rows_of(cells, by, lambda _, cell: [e for m in metrics for e in _entries(cell, m, maps)])
    names = tuple("as trained" if name == "identity" else name.replace("_", " ") for name in maps)
    groups = ((Measure(metric).title, len(maps)) for metric in metrics)
    return Table(
        "maps",
        f"Post-hoc maps on {runs[0].unit}, width {runs[0].width}",
        ("method", *asked_heads(by)),
        ("seeds", *names * len(metrics)),
        rows,
        "Means over seeds on the test split, in brackets of how many where not all were measured "
        "with that map; maps are fitted on validation. Bold: the best map of "
        "the row, and what the paired t-test over seeds cannot tell from it (5 %, Holm-corrected).",
        runs[0].unit,
        tuple(Measure(metric, map_).to_dict() for metric in metrics for map_ in maps),
        groups=(("", 1), *groups),
    )


def _entries(cell: Sequence[Run], metric: str, maps: Sequence[str]) -> list[Entry]:
    measures = [Measure(metric, map_) for map_ in maps]
    columns = [
        {run.pair: measure.of(run) for run in cell if run.part(measure.map)} for measure in measures
    ]
    known = [column or {(): math.nan} for column in columns]
    marks = best_alike(known, measures[0].sign)
    entries = []
    for measure, column, bold in zip(measures, columns, marks, strict=True):
        if not column:
            entries.append(Entry(""))
            continue
        found = estimate(list(column.values()))
        text = found._replace(half=math.nan).show(measure.digits)
        text += f" ({found.n})" if found.n < len(cell) else ""
        entries.append(Entry(text, found.mean, found.half, found.n, bold))
    return entries
