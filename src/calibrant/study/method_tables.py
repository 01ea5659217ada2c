"""Tables with a row per method: any measures, calibrators, out of scope, whole entities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from calibrant.study.grouping import Units, at_main_width
from calibrant.study.measures import StudyMeasure, calibrators_of, measures_of
from calibrant.study.rows import (
    bold_marks,
    by_method,
    describe_bold,
    estimates,
    requested_heads,
    rows_of,
)
from calibrant.study.runs import Run
from calibrant.study.statistics import best_alike, estimate
from calibrant.study.table import Table, TableEntry, TableRow, grouped

__all__ = [
    "entities_overview",
    "entities_table",
    "maps_table",
    "method_table",
    "out_of_scope_table",
]

Entries = Callable[[Sequence[Run], Sequence[StudyMeasure], Sequence[bool]], Iterable[TableEntry]]
_OUTSIDE = "outside"
_OUTSIDE_METRICS = ("auroc", "mean_confidence")
_ENTITIES = "entities"
_ENTITIES_NOTE = (
    "ECE of whole entities, right where start, end and type are, with the product of their words' "
    "confidences, and with the confidence that is learned on validation entities (SpanCalibrator), "
    "which 'calibrant predict' gives; AUROC and AURC are of the latter. Mean ± half of a 95 % "
    "t-interval over seeds. (T): with the temperature that was "
    "fitted on the validation split."
)


def method_table(
    name: str,
    title: str,
    note: str,
    runs: Sequence[Run],
    measures: Sequence[StudyMeasure],
    by: Sequence[str],
    axes: Sequence[str] = (),
    entries: Entries = estimates,
) -> Table:
    """Make a row per method (and requested value) with its seeds and each measure.

    ``axes`` (width, depth) are further labels of a row; methods are compared within their values.
    The meaning of bold is added to the note.
    """
    cells, labels = by_method(runs, axes), 1 + len(by) + len(axes)
    bold = bold_marks(cells, measures, lambda key: key[1 + len(by) : labels])
    rows = rows_of(cells, labels, lambda key, cell: entries(cell, measures, bold[key]))
    return Table(
        name,
        title,
        ("method", *requested_heads(by), *axes),
        ("seeds", *(measure.title for measure in measures)),
        grouped(rows) if axes else rows,
        note + describe_bold(cells, rows, f" of its {' and '.join(axes)}" if axes else ""),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def maps_table(runs: Sequence[Run], shown: Sequence[str], by: Sequence[str]) -> Table | None:
    """Make a row per method at the main width; None if the other tables have all calibrators."""
    runs, calibrators = at_main_width(runs), calibrators_of(runs)
    metrics = [
        metric for metric in ("ece", "apcr")
        if any(not math.isnan(run.value(metric, name)) for run in runs for name in calibrators)
    ]  # fmt: skip
    if set(calibrators) <= set(shown) or not metrics:
        return None
    cells = by_method(runs)
    rows = rows_of(
        cells,
        1 + len(by),
        lambda _, cell: [e for m in metrics for e in _entries(cell, m, calibrators)],
    )
    names = tuple(
        "as trained" if name == "identity" else name.replace("_", " ") for name in calibrators
    )
    groups = ((StudyMeasure(metric).title, len(calibrators)) for metric in metrics)
    return Table(
        "calibrators",
        f"Calibrators on {runs[0].unit}, width {runs[0].width}",
        ("method", *requested_heads(by)),
        ("seeds", *names * len(metrics)),
        rows,
        "Means over seeds on the test split. Brackets give the number of seeds if not all were "
        "measured with that calibrator. Calibrators are fitted on the validation split. Bold: "
        "the best of the row, and those that the paired t-test over seeds does not separate from "
        "it (5 %, Holm-corrected).",
        runs[0].unit,
        tuple(
            StudyMeasure(metric, calibrator).to_dict()
            for metric in metrics
            for calibrator in calibrators
        ),
        groups=(("", 1), *groups),
    )


def _entries(cell: Sequence[Run], metric: str, calibrators: Sequence[str]) -> list[TableEntry]:
    measures = [StudyMeasure(metric, calibrator) for calibrator in calibrators]
    columns = [
        {run.pair: measure.of(run) for run in cell if run.part(measure.calibrator)}
        for measure in measures
    ]
    known = [column or {(): math.nan} for column in columns]
    marks = best_alike(known, measures[0].sign)
    entries = []
    for measure, column, bold in zip(measures, columns, marks, strict=True):
        if not column:
            entries.append(TableEntry(""))
            continue
        found = estimate(list(column.values()))
        text = found._replace(half=math.nan).show(measure.digits)
        text += f" ({found.n})" if found.n < len(cell) else ""
        entries.append(TableEntry(text, found.mean, found.half, found.n, bold))
    return entries


def out_of_scope_table(runs: Sequence[Run], by: Sequence[str]) -> Table | None:
    """Make a row per method at the main width; None without out-of-scope data."""
    runs = [run for run in at_main_width(runs) if not math.isnan(run.some_value("auroc", _OUTSIDE))]
    if not runs:
        return None
    measures = sorted(
        measures_of(runs, _OUTSIDE_METRICS, _OUTSIDE),
        key=lambda measure: _OUTSIDE_METRICS.index(measure.metric),
    )
    count = int(max(run.some_value("examples", _OUTSIDE) for run in runs))
    return method_table(
        "outside",
        f"In against out of scope: trained on {runs[0].unit}, width {runs[0].width}",
        f"AUROC: the chance that an example of the test split is more confident than one of "
        f"{count:,} that belong to no class; mean confidence: of these, which should be low. "
        "Mean ± half of a 95 % t-interval over seeds. (T): with the temperature that was "
        "fitted on the validation split.",
        runs,
        measures,
        by,
    )


@dataclass(frozen=True)
class _Learned(StudyMeasure):
    """A number of the learned entity confidences, stored with the calibrator of a run."""

    part: str = _ENTITIES

    @property
    def title(self) -> str:
        """The head of the column."""
        return f"learned: {StudyMeasure(self.metric).title}"

    def of(self, run: Run) -> float:
        """Return the value of a run; NaN if it has none."""
        found = (run.value(self.metric, calibrator, self.part) for calibrator in run.record.results)
        return next((value for value in found if not math.isnan(value)), math.nan)


_LEARNED = [_Learned(metric, "auto") for metric in ("ece", "auroc", "aurc")]


def entities_table(runs: Sequence[Run], by: Sequence[str]) -> Table | None:
    """Make a row per method at the main width; None without learned entity confidences."""
    runs = [run for run in at_main_width(runs) if not math.isnan(_LEARNED[0].of(run))]
    if not runs:
        return None
    product = [StudyMeasure("entity_ece"), StudyMeasure("entity_ece", "temperature")]
    measures = [
        measure
        for measure in (*product, *_LEARNED)
        if not all(math.isnan(measure.of(run)) for run in runs)
    ]
    title = f"Whole entities on {runs[0].unit}, width {runs[0].width}"
    return method_table("entities", title, _ENTITIES_NOTE, runs, measures, by)


def entities_overview(units: Units, by: Sequence[str]) -> Table | None:
    """Make a row per corpus of a single method; None with one corpus or several methods."""
    found = {corpus: entities_table(runs, by) for corpus, runs in units.items()}
    tables = {corpus: table for corpus, table in found.items() if table is not None}
    if len(tables) < 2 or any(len(table.rows) > 1 for table in tables.values()):
        return None
    widest = max(tables.values(), key=lambda table: len(table.heads))
    rows = []
    for corpus, table in tables.items():
        (row,) = table.rows
        entries = dict(zip(table.heads, row.entries, strict=True))
        shown = tuple(entries.get(head, TableEntry("")) for head in widest.heads)
        rows.append(TableRow((corpus, *row.labels), shown, row.keys))
    return Table(
        "entities",
        f"Whole entities on {len(tables)} corpora",
        ("corpus", *widest.label_heads),
        widest.heads,
        tuple(rows),
        _ENTITIES_NOTE,
        measures=widest.measures,
    )
