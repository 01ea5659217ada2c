"""Tables of single classes: IoU, and ECE of the pixels that are predicted as each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.study.grouping import at_main_width
from calibrant.study.measures import StudyMeasure
from calibrant.study.method_tables import method_table
from calibrant.study.runs import Run
from calibrant.study.table import Table

__all__ = ["class_tables"]

_MOST = 20  # Columns of a table.
_COLUMNS = (("iou", "identity"), ("ece", "identity"), ("ece", "temperature"))
_TITLES = {"iou": "IoU", "ece": "ECE"}
_NOTES = {
    "iou": "Intersection over union: TP / (TP + FP + FN) of all test pixels.",
    "ece": "Of the test pixels that are predicted as the class.",
}


@dataclass(frozen=True)
class _OfClass(StudyMeasure):
    """A number of one class, whose name is the head of the column."""

    @property
    def title(self) -> str:
        """The name of the class."""
        return self.part.partition("/")[2]

    @property
    def sign(self) -> int:
        """1 if more is better, −1 if less is better."""
        return 1 if self.metric == "iou" else -1


def class_tables(runs: Sequence[Run], by: Sequence[str]) -> list[Table]:
    """Make a row per method and a column per class; none where records have no classes."""
    runs = [run for run in at_main_width(runs) if run.part("identity", "classes")]
    found = (_table(runs, by, metric, calibrator) for metric, calibrator in _COLUMNS)
    return [table for table in found if table is not None]


def _table(runs: Sequence[Run], by: Sequence[str], metric: str, calibrator: str) -> Table | None:
    labels = dict.fromkeys(label for run in runs for label in run.part(calibrator, "classes"))
    measures = [_OfClass(metric, calibrator, f"classes/{label}") for label in labels][:_MOST]
    shown = [m for m in measures if not all(math.isnan(m.of(run)) for run in runs)]
    if not shown:
        return None
    after = " with temperature" if calibrator == "temperature" else ""
    rest = f" The first {_MOST} of {len(labels)} classes." if len(labels) > _MOST else ""
    return method_table(
        f"classes-{metric}{'-temperature' * bool(after)}",
        f"{_TITLES[metric]} of each class{after} on {runs[0].unit}, width {runs[0].width}",
        f"{_NOTES[metric]}{rest} Mean ± half of a 95 % t-interval over seeds.",
        runs,
        shown,
        by,
    )
