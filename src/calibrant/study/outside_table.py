"""What belongs to no class: how well the confidence parts it from the test split."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.study.main_head import at_main_width
from calibrant.study.measures import measures_of
from calibrant.study.rows import (
    asked_heads,
    asked_labels,
    bold_marks,
    estimates,
    gather,
    rows_of,
    told_bold,
)
from calibrant.study.runs import Run
from calibrant.study.table import Table

__all__ = ["outside_table"]

_PART = "outside"
_METRICS = ("auroc", "mean_confidence")


def outside_table(runs: Sequence[Run], by: Sequence[str]) -> Table | None:
    """A row per method at the main width; None where no run was asked about what has no class."""
    runs = [run for run in at_main_width(runs) if not math.isnan(run.value("auroc", part=_PART))]
    if not runs:
        return None
    measures = sorted(
        measures_of(runs, _METRICS, _PART), key=lambda measure: _METRICS.index(measure.metric)
    )
    cells = gather(runs, lambda run: (run.shown, *asked_labels(run), run.method, run.extra))
    bold = bold_marks(cells, measures, lambda _: 0)
    rows = rows_of(cells, by, lambda key, cell: estimates(cell, measures, bold[key]))
    count = int(max(run.value("examples", part=_PART) for run in runs))
    return Table(
        "outside",
        f"In against out of scope: trained on {runs[0].unit}, width {runs[0].width}",
        ("method", *asked_heads(by)),
        ("seeds", *(measure.title for measure in measures)),
        rows,
        f"AUROC: the chance that an example of the test split is surer than one of {count:,} that "
        "belong to no class; mean confidence: of these, which should be low. Mean ± half of a 95 % "
        "t-interval over seeds. (T): with the temperature that was fitted on the validation split."
        f"{told_bold(cells, rows)}",
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )
