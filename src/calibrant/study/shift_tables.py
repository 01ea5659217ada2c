"""What confidences are worth on other data: corrupted text by strength, and other corpora."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from calibrant.study.measures import SHIFT_METRICS, Measure, measures_of
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

__all__ = [
    "OTHER",
    "Shift",
    "kind_title",
    "measured_on",
    "shift_measures",
    "shift_tables",
    "shifts_of",
]

Shift = dict[str, str]  # Strength, or the name of the data → the part of the results

OTHER = "other data"
_GRADED = re.compile(r"(?P<kind>.+)-(?P<strength>\d+)")


def shifts_of(runs: Sequence[Run]) -> dict[str, Shift]:
    """Kinds of other data in the records: graded ones ("typos") by strength, 0 being the test.

    What has no strength ("wnut17") comes together under "other data".
    """
    names = sorted(
        {name for run in runs for found in run.record.results.values()
         for name in found.get("shift", {})}
    )  # fmt: skip
    kinds: dict[str, Shift] = {}
    for name in names:
        graded = _GRADED.fullmatch(name)
        if graded:
            kinds.setdefault(graded["kind"], {})[graded["strength"]] = f"shift/{name}"
        else:
            kinds.setdefault(OTHER, {})[name] = f"shift/{name}"
    if any("ood" in found for run in runs for found in run.record.results.values()):
        kinds.setdefault(OTHER, {})["ood"] = "ood"
    return {kind: _with_test(kind, parts) for kind, parts in kinds.items()}


def kind_title(kind: str) -> str:
    """A kind of other data at the beginning of a title.

    >>> kind_title("gaussian-noise")
    'Gaussian noise'
    """
    return f"{kind[0].upper()}{kind[1:]}".replace("-", " ")


def _with_test(kind: str, parts: Shift) -> Shift:
    """Strengths in their order; the test as it is comes first."""
    if kind == OTHER:
        return {"test": "test", **parts}
    return {"0": "test", **dict(sorted(parts.items(), key=lambda item: int(item[0])))}


def shift_measures(runs: Sequence[Run], shift: Shift) -> list[Measure]:
    """The columns: every metric and map that differs on any of the parts."""
    found: dict[Measure, None] = {}
    for part in shift.values():
        for measure in measures_of(runs, SHIFT_METRICS, part):
            found.setdefault(replace(measure, part="test"))
    order = {metric: place for place, metric in enumerate(SHIFT_METRICS)}
    maps = list(dict.fromkeys(measure.map for measure in found))
    return sorted(found, key=lambda m: (maps.index(m.map), order[m.metric]))


def shift_tables(runs: Sequence[Run], by: Sequence[str]) -> list[Table]:
    """One table per kind of other data of one unit, as a detail."""
    return [
        _table(measured_on(runs, shift), kind, shift, by) for kind, shift in shifts_of(runs).items()
    ]


def measured_on(runs: Sequence[Run], shift: Shift) -> list[Run]:
    """The runs that were measured on other data of that kind."""
    parts = [part for part in shift.values() if part != "test"]
    return [
        run for run in runs if any(not math.isnan(run.value("ece", part=part)) for part in parts)
    ]


def _table(runs: Sequence[Run], kind: str, shift: Shift, by: Sequence[str]) -> Table:
    measures = shift_measures(runs, shift)
    cells = gather(runs, lambda run: (run.shown, *asked_labels(run), str(run.width)))
    there = {name: [replace(m, part=part) for m in measures] for name, part in shift.items()}
    bold = {name: bold_marks(cells, found, lambda _: 0) for name, found in there.items()}
    rows = [
        Row(
            (*labels, name),
            (number_of(cell), *estimates(cell, found, bold[name][labels])),
            record_keys(cell),
        )
        for labels, cell in cells.items()
        for name, found in there.items()
    ]
    graded = kind != OTHER
    return Table(
        f"shift-{kind.replace(' ', '-')}",
        f"{kind_title(kind)}: trained on {runs[0].unit}",
        ("method", *asked_heads(by), "width", "strength" if graded else "on"),
        ("seeds", *(measure.title for measure in measures)),
        grouped(rows),
        "Mean ± half of a 95 % t-interval over seeds; maps are fitted on the validation split of "
        "the training corpus."
        + (" Strength 0 is the test split as it is." if graded else "")
        + told_bold(cells, rows, " at that place"),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
        closed=True,
    )
