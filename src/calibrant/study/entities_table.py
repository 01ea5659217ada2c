"""Whole entities: the product of their words' confidences, and the one that is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.study.main_head import at_main_width
from calibrant.study.measures import Measure
from calibrant.study.method_table import method_table
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table
from calibrant.study.units import Units

__all__ = ["entities_overview", "entities_table"]

_PART = "entities"
_NOTE = (
    "ECE of whole entities, right where start, end and type are, with the product of their words' "
    "confidences, and with the confidence that is learned on validation entities (EntityMap), "
    "which 'calibrant predict' gives; AUROC and AURC are of the latter. Mean ± half of a 95 % "
    "t-interval over seeds. (T): with the temperature that was fitted on the validation split."
)


@dataclass(frozen=True)
class _Learned(Measure):
    """A number of the learned confidences, which stand with the map that a run is used with."""

    part: str = _PART

    @property
    def title(self) -> str:
        """What the table calls it."""
        return f"learned: {Measure(self.metric).title}"

    def of(self, run: Run) -> float:
        """The value of a run; NaN where it has none."""
        found = (run.value(self.metric, map_, self.part) for map_ in run.record.results)
        return next((value for value in found if not math.isnan(value)), math.nan)


_LEARNED = [_Learned(metric, "auto") for metric in ("ece", "auroc", "aurc")]


def entities_table(runs: Sequence[Run], by: Sequence[str]) -> Table | None:
    """A row per method at the main width; None where no run tells of learned confidences."""
    runs = [run for run in at_main_width(runs) if not math.isnan(_LEARNED[0].of(run))]
    if not runs:
        return None
    product = [Measure("entity_ece"), Measure("entity_ece", "temperature")]
    measures = [
        measure
        for measure in (*product, *_LEARNED)
        if not all(math.isnan(measure.of(run)) for run in runs)
    ]
    title = f"Whole entities on {runs[0].unit}, width {runs[0].width}"
    return method_table("entities", title, _NOTE, runs, measures, by)


def entities_overview(units: Units, by: Sequence[str]) -> Table | None:
    """The corpora of one method one below the other; None where there are not several."""
    found = {corpus: entities_table(runs, by) for corpus, runs in units.items()}
    tables = {corpus: table for corpus, table in found.items() if table is not None}
    if len(tables) < 2 or any(len(table.rows) > 1 for table in tables.values()):
        return None
    widest = max(tables.values(), key=lambda table: len(table.heads))
    rows = []
    for corpus, table in tables.items():
        (row,) = table.rows
        entries = dict(zip(table.heads, row.entries, strict=True))
        shown = tuple(entries.get(head, Entry("")) for head in widest.heads)
        rows.append(Row((corpus, *row.labels), shown, row.keys))
    return Table(
        "entities",
        f"Whole entities on {len(tables)} corpora",
        ("corpus", *widest.label_heads),
        widest.heads,
        tuple(rows),
        _NOTE,
        measures=widest.measures,
    )
