"""Results against the depth of the head."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.study.main_head import with_several_depths
from calibrant.study.measures import Measure
from calibrant.study.result_tables import MEANS
from calibrant.study.rows import (
    asked_heads,
    asked_labels,
    bold_marks,
    estimates,
    gather,
    number_of,
    record_keys,
    told_bold,
)
from calibrant.study.runs import Run
from calibrant.study.table import Row, Table, grouped

__all__ = ["depth_table"]


def depth_table(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> Table | None:
    """A row per method, width and depth, at the widths that have several depths; None without."""
    runs = with_several_depths(runs)
    if not runs:
        return None
    labels = 3 + len(by)
    cells = gather(
        runs,
        lambda run: (
            run.shown, *asked_labels(run), run.width, run.depth, run.method, run.extra,
        ),
    )  # fmt: skip
    bold = bold_marks(cells, measures, lambda key: key[labels - 2 : labels])
    rows = [
        Row(
            (*map(str, key[:labels]),),
            (number_of(cell), *estimates(cell, measures, bold[key])),
            record_keys(cell),
        )
        for key, cell in cells.items()
    ]
    return Table(
        "depth",
        f"Depth of the head on {runs[0].unit}",
        ("method", *asked_heads(by), "width", "depth"),
        ("seeds", *(m.title for m in measures)),
        grouped(rows),
        MEANS + told_bold(cells, rows, " of its width and depth"),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )
