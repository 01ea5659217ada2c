"""What belongs to no class: how well the confidence parts it from the test split."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.study.main_head import at_main_width
from calibrant.study.measures import measures_of
from calibrant.study.method_table import method_table
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
    count = int(max(run.value("examples", part=_PART) for run in runs))
    return method_table(
        "outside",
        f"In against out of scope: trained on {runs[0].unit}, width {runs[0].width}",
        f"AUROC: the chance that an example of the test split is surer than one of {count:,} that "
        "belong to no class; mean confidence: of these, which should be low. Mean ± half of a 95 % "
        "t-interval over seeds. (T): with the temperature that was fitted on the validation split.",
        runs,
        measures,
        by,
    )
