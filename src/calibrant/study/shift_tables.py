"""Results on other data: corrupted inputs by strength, and other corpora."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from calibrant.charts.numbers import show
from calibrant.study.grouping import at_main_width, group_by
from calibrant.study.measures import SHIFT_METRICS, StudyMeasure, measures_of
from calibrant.study.method_tables import method_table
from calibrant.study.rows import (
    bold_marks,
    describe_bold,
    estimates,
    number_of,
    record_keys,
    requested_heads,
    requested_labels,
)
from calibrant.study.runs import Run
from calibrant.study.table import Table, TableEntry, TableRow, grouped

__all__ = [
    "OTHER",
    "Shift",
    "kind_title",
    "measured_on",
    "shift_measures",
    "shift_tables",
    "shifts_of",
    "worst_shift_tables",
]

Shift = dict[str, str]  # Strength, or the name of the data → the part of the results

OTHER = "other data"
# Strengths are small; "conll-2003" and "news/part-2" are other data.
_GRADED = re.compile(r"(?P<kind>[^/\\]+)-(?P<strength>[1-9]\d?)")
_WORST_METRICS = ("accuracy", "ece")
_MOST_KINDS = 5  # Kinds of other data that fit side by side.


def shifts_of(runs: Sequence[Run]) -> dict[str, Shift]:
    """Return the kinds of other data: graded ones ("typos") by strength, 0 for the test split.

    Data without a strength ("wnut17") come together under "other data".
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
    """Capitalise a kind of other data for a title.

    >>> kind_title("gaussian-noise")
    'Gaussian noise'
    """
    return f"{kind[0].upper()}{kind[1:]}".replace("-", " ")


def _with_test(kind: str, parts: Shift) -> Shift:
    """Sort strengths, with the unchanged test split first."""
    if kind == OTHER:
        return {"test": "test", **parts}
    return {"0": "test", **dict(sorted(parts.items(), key=lambda item: int(item[0])))}


def shift_measures(runs: Sequence[Run], shift: Shift) -> list[StudyMeasure]:
    """Return the columns: every metric and calibrator that differs on any of the parts."""
    found: dict[StudyMeasure, None] = {}
    for part in shift.values():
        for measure in measures_of(runs, SHIFT_METRICS, part):
            found.setdefault(replace(measure, part="test"))
    order = {metric: place for place, metric in enumerate(SHIFT_METRICS)}
    calibrators = list(dict.fromkeys(measure.calibrator for measure in found))
    return sorted(found, key=lambda m: (calibrators.index(m.calibrator), order[m.metric]))


def shift_tables(runs: Sequence[Run], by: Sequence[str]) -> list[Table]:
    """Make one table per kind of other data of one unit, as a detail."""
    tables = []
    for kind, shift in shifts_of(runs).items():
        measured = measured_on(runs, shift)
        table = _table(measured, kind, shift, by)
        tables.append(replace(table, note=table.note + _not_measured(runs, measured)))
    return tables


def measured_on(runs: Sequence[Run], shift: Mapping[str, str]) -> list[Run]:
    """Return the runs that were measured on any of these parts, apart from the test split."""
    parts = [part for part in shift.values() if part != "test"]
    return [run for run in runs if any(not math.isnan(run.some_value("ece", p)) for p in parts)]


def _not_measured(runs: Sequence[Run], measured: Sequence[Run]) -> str:
    """Name the methods that have no row, as they were not measured on the data of a table."""
    there = {run.method for run in measured}
    lacking = dict.fromkeys(run.method for run in runs if run.method not in there)
    return f" Not measured there: {', '.join(lacking)}." if lacking else ""


def _table(runs: Sequence[Run], kind: str, shift: Shift, by: Sequence[str]) -> Table:
    measures = shift_measures(runs, shift)
    cells = group_by(runs, lambda run: (run.shown, *requested_labels(run), str(run.width)))
    there = {name: [replace(m, part=part) for m in measures] for name, part in shift.items()}
    bold = {name: bold_marks(cells, found, lambda _: 0) for name, found in there.items()}
    rows = [
        TableRow(
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
        ("method", *requested_heads(by), "width", "strength" if graded else "on"),
        ("seeds", *(measure.title for measure in measures)),
        grouped(rows),
        "Mean ± half of a 95 % t-interval over seeds; calibrators are fitted on the validation "
        "split of the training corpus."
        + (" Strength 0 is the test split as it is." if graded else "")
        + describe_bold(cells, rows, " at that place"),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
        closed=True,
    )


def worst_shift_tables(runs: Sequence[Run], by: Sequence[str]) -> list[Table]:
    """Make a row per method at the main width and a group of columns per kind of other data.

    Many kinds are split evenly over several tables; none without other data.
    """
    runs = at_main_width(runs)
    parts, alike = _strongest(runs)
    names = list(parts)
    count = -(-len(names) // _MOST_KINDS)
    bounds = [place * len(names) // count for place in range(count + 1)] if count else []
    same = f" No number changes with {', '.join(alike)}." if alike else ""
    tables = []
    for start, end in pairwise(bounds):
        there = {name: parts[name] for name in names[start:end]}
        table = _worst_table(runs, there, by)
        which = f": {', '.join(there)}" if count > 1 else ""
        title = f"{table.title}{which}"
        tables.append(replace(table, title=title, note=f"{table.note}{same}"))
    return tables


def _worst_table(runs: Sequence[Run], parts: Mapping[str, str], by: Sequence[str]) -> Table:
    everything, runs = runs, measured_on(runs, parts)
    measures = [
        measure
        for part in ("test", *parts.values())
        for measure in _worst_measures(runs, parts.values(), part)
    ]
    table = method_table(
        "shift",
        f"Other data: trained on {runs[0].unit}, width {runs[0].width}",
        "Means over seeds, of each corruption at its greatest strength; calibrators are fitted on "
        "the validation split of the training corpus.",
        runs,
        measures,
        by,
        entries=_means,
    )
    each = len(measures) // (1 + len(parts))
    return replace(
        table,
        note=table.note + _not_measured(everything, runs),
        heads=("seeds", *(replace(measure, part="test").title for measure in measures)),
        groups=(("", 1), ("test", each), *((name, each) for name in parts)),
    )


def _strongest(runs: Sequence[Run]) -> tuple[dict[str, str], list[str]]:
    """Return name → strongest part of each kind, and the names on which no number changes."""
    found: dict[str, str] = {}
    for kind, shift in shifts_of(runs).items():
        names = [name for name, part in shift.items() if part != "test"]
        kept = names if kind == OTHER else names[-1:]
        found |= {n if kind == OTHER else f"{kind} {n}": shift[n] for n in kept}
    alike = [name for name, part in found.items() if _as_on_test(runs, part)]
    return {name: part for name, part in found.items() if name not in alike}, alike


def _as_on_test(runs: Sequence[Run], part: str) -> bool:
    return all(
        math.isnan(there := run.value(metric, calibrator, part))
        or there == run.value(metric, calibrator)
        for run in runs
        for calibrator in run.record.results
        for metric in _WORST_METRICS
    )


def _worst_measures(runs: Sequence[Run], parts: Iterable[str], part: str) -> list[StudyMeasure]:
    """Return the same columns for every part: those that differ between calibrators on any part."""
    found = {
        replace(measure, part=part): None
        for place in ("test", *parts)
        for measure in measures_of(runs, _WORST_METRICS, place)
    }
    calibrators = list(dict.fromkeys(measure.calibrator for measure in found))
    return sorted(
        found, key=lambda m: (_WORST_METRICS.index(m.metric), calibrators.index(m.calibrator))
    )


def _means(
    cell: Sequence[Run], measures: Sequence[StudyMeasure], bold: Sequence[bool]
) -> Iterable[TableEntry]:
    """Estimate as the other tables do, but show no intervals; the data keep them."""
    for entry, measure in zip(estimates(cell, measures, bold), measures, strict=True):
        yield replace(entry, text=show(entry.value, measure.digits))
