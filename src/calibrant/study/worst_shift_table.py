"""Other data at a glance: the strongest of every corruption, and other corpora, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from calibrant.study.estimate import show
from calibrant.study.main_head import at_main_width
from calibrant.study.measures import Measure, measures_of
from calibrant.study.method_table import method_table
from calibrant.study.rows import estimates
from calibrant.study.runs import Run
from calibrant.study.shift_tables import OTHER, shifts_of
from calibrant.study.table import Entry, Table

__all__ = ["worst_shift_tables"]

_METRICS = ("accuracy", "ece")
_MOST = 5  # Kinds of other data that fit side by side.


def worst_shift_tables(runs: Sequence[Run], by: Sequence[str]) -> list[Table]:
    """A row per method at the main width, a group of columns per kind; none without other data.

    Many kinds are dealt to several tables, of much the same size.
    """
    runs = at_main_width(runs)
    parts, alike = _parts(runs)
    names = list(parts)
    count = -(-len(names) // _MOST)
    bounds = [place * len(names) // count for place in range(count + 1)] if count else []
    same = f" No number changes with {', '.join(alike)}." if alike else ""
    tables = []
    for start, end in pairwise(bounds):
        there = {name: parts[name] for name in names[start:end]}
        table = _table(runs, there, by)
        which = f": {', '.join(there)}" if count > 1 else ""
        title = f"{table.title}{which}"
        tables.append(replace(table, title=title, note=f"{table.note}{same}"))
    return tables


def _table(runs: Sequence[Run], parts: Mapping[str, str], by: Sequence[str]) -> Table:
    runs = [
        run for run in runs if not math.isnan(run.value("ece", part=next(iter(parts.values()))))
    ]
    measures = [
        measure
        for part in ("test", *parts.values())
        for measure in _measures(runs, parts.values(), part)
    ]
    table = method_table(
        "shift",
        f"Other data: trained on {runs[0].unit}, width {runs[0].width}",
        "Means over seeds, of each corruption at its greatest strength; maps are fitted on the "
        "validation split of the training corpus.",
        runs,
        measures,
        by,
        _means,
    )
    each = len(measures) // (1 + len(parts))
    return replace(
        table,
        heads=("seeds", *(replace(measure, part="test").title for measure in measures)),
        groups=(("", 1), ("test", each), *((name, each) for name in parts)),
    )


def _parts(runs: Sequence[Run]) -> tuple[dict[str, str], list[str]]:
    """Name → part of the strongest of each kind; and those on which nothing is as on the test."""
    found: dict[str, str] = {}
    for kind, shift in shifts_of(runs).items():
        names = [name for name, part in shift.items() if part != "test"]
        kept = names if kind == OTHER else names[-1:]
        found |= {n if kind == OTHER else f"{kind} {n}": shift[n] for n in kept}
    alike = [name for name, part in found.items() if _as_on_test(runs, part)]
    return {name: part for name, part in found.items() if name not in alike}, alike


def _as_on_test(runs: Sequence[Run], part: str) -> bool:
    return all(
        math.isnan(there := run.value(metric, part=part)) or there == run.value(metric)
        for run in runs
        for metric in _METRICS
    )


def _measures(runs: Sequence[Run], parts: Iterable[str], part: str) -> list[Measure]:
    """The same columns for every part: what differs between maps on any of them."""
    found = {
        replace(measure, part=part): None
        for place in ("test", *parts)
        for measure in measures_of(runs, _METRICS, place)
    }
    maps = list(dict.fromkeys(measure.map for measure in found))
    return sorted(found, key=lambda m: (_METRICS.index(m.metric), maps.index(m.map)))


def _means(
    cell: Sequence[Run], measures: Sequence[Measure], bold: Sequence[bool]
) -> Iterable[Entry]:
    """The estimates of the other tables without their intervals, which the data keep."""
    for entry, measure in zip(estimates(cell, measures, bold), measures, strict=True):
        yield replace(entry, text=show(entry.value, measure.digits))
