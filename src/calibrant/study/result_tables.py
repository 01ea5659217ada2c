"""Results of one corpus: by method and head width, averaged over widths, and by depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from calibrant.study.grouping import at_main_width, with_several_depths
from calibrant.study.measures import StudyMeasure, in_parts
from calibrant.study.method_tables import method_table
from calibrant.study.rows import (
    bold_marks,
    by_method,
    by_seed,
    describe_bold,
    number_of,
    record_keys,
    requested_heads,
)
from calibrant.study.runs import Run
from calibrant.study.statistics import estimate
from calibrant.study.table import Table, TableRow, as_entry, grouped

__all__ = ["depth_table", "result_tables"]

_MEANS = (
    "Mean ± half of a 95 % t-interval over seeds. (T): with the temperature that was fitted on the "
    "validation split."
)
_POOLED = (
    "Each seed's mean over the widths, of the seeds that were run at all of them, then mean ± half "
    "of a 95 % t-interval over seeds. (T): with the temperature that was fitted on the validation "
    "split."
)


def result_tables(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]
) -> list[Table]:
    """Make the tables of averages over widths and of all widths, which is a detail.

    The main width has a table too if the averages lack a method. Columns that do not fit side by
    side go to further tables.
    """
    parts = in_parts(measures).items()
    return [table.part(words) for words, part in parts for table in _tables(runs, part, by)]


def _tables(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]
) -> list[Table]:
    whole, pooled = _width_table(runs, measures, by), _pooled_table(runs, measures, by)
    if len({run.width for run in runs}) == 1:
        return [whole]
    tables = [] if pooled is None else [pooled]
    main = at_main_width(runs)
    if pooled is None or len(pooled.rows) < len({(run.method, run.extra) for run in runs}):
        title = f"{whole.title}, width {main[0].width}"
        name = f"results-{main[0].width}"
        tables.append(replace(_width_table(main, measures, by), name=name, title=title))
    whole = replace(whole, title=f"{whole.title}, all widths", closed=True)
    return [*tables, whole]


def _width_table(runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]) -> Table:
    """Make a row per method, head width and requested value."""
    title = f"Results on {runs[0].unit}"
    return method_table("results", title, _MEANS, runs, measures, by, ["width"])


def _pooled_table(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]
) -> Table | None:
    """Average over head widths; None with one width, or if no method has them all."""
    widths = sorted({run.width for run in runs})
    cells = by_method(runs)
    complete = {key: _complete_seeds(cell, len(widths)) for key, cell in cells.items()}
    complete = {key: cell for key, cell in complete.items() if cell}
    if len(widths) < 2 or not complete:
        return None
    bold = bold_marks(complete, measures, lambda _: 0)
    rows = [
        _pooled_row((*map(str, key[: 1 + len(by)]),), cell, measures, bold[key])
        for key, cell in complete.items()
    ]
    return Table(
        "pooled",
        f"Averaged over widths {', '.join(map(str, widths))} on {runs[0].unit}",
        ("method", *requested_heads(by)),
        ("seeds", *(measure.title for measure in measures)),
        grouped(rows),
        _POOLED + describe_bold(complete, rows),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def _pooled_row(
    labels: tuple[str, ...],
    cell: Sequence[Run],
    measures: Sequence[StudyMeasure],
    bold: Sequence[bool],
) -> TableRow:
    entries = [
        as_entry(estimate(list(by_seed(cell, measure).values())), measure.digits, marked)
        for measure, marked in zip(measures, bold, strict=True)
    ]
    seeds = number_of({run.seed for run in cell})
    return TableRow(labels, (seeds, *entries), record_keys(cell))


def _complete_seeds(cell: Sequence[Run], widths: int) -> list[Run]:
    """Return the runs of the seeds that were run at every width."""
    counts = Counter(run.seed for run in cell)
    runs = [run for run in cell if counts[run.seed] == widths]
    return sorted(runs, key=lambda run: run.seed)


def depth_table(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], by: Sequence[str]
) -> Table | None:
    """Make a row per method, width and depth, where there are several depths; None otherwise."""
    runs = with_several_depths(runs)
    if not runs:
        return None
    title = f"Depth of the head on {runs[0].unit}"
    return method_table("depth", title, _MEANS, runs, measures, by, ["width", "depth"])
