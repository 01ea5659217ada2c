"""The tables over all corpora: which recipe to take, all side by side, ranks, wins, entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from calibrant.study.best_counts import best_counts
from calibrant.study.entities_table import entities_overview
from calibrant.study.measures import maps_of, measures_of
from calibrant.study.rank_table import rank_table
from calibrant.study.table import Table
from calibrant.study.target_table import Target, target_of, target_table
from calibrant.study.units import Alike, Units, members_of
from calibrant.study.values import Values
from calibrant.study.wide_table import wide_table
from calibrant.study.win_table import win_tables

__all__ = ["Shown", "corpora_tables", "target_tables", "targets_of"]


class Shown(NamedTuple):
    """What was asked for."""

    metrics: Sequence[str] | None
    by: tuple[str, ...]
    baseline: str


def targets_of(complete: Mapping[Alike, Units], baseline: str) -> dict[Values, Target]:
    """What to choose from in the main setting, for each value of the keys asked for."""
    found = {
        alike.values: target_of(units, baseline)
        for alike, units in complete.items()
        if not alike.setting
    }
    return {values: target for values, target in found.items() if target is not None}


def target_tables(targets: Mapping[Values, Target]) -> list[Table]:
    """Which recipe to take, a table per value."""
    return [_told(target_table(target), Alike("", values)) for values, target in targets.items()]


def corpora_tables(
    parts: Mapping[Alike, Units], complete: Mapping[Alike, Units], shown: Shown, remark: str
) -> list[Table]:
    """One set of tables per setting and value that has more than one corpus.

    ``complete`` has all maps; the ``remark`` on settings stands under the tables of all numbers.
    """
    found: list[Table] = []
    for alike, units in parts.items():
        if len(units) < 2:
            continue
        members = members_of(units)
        measures = measures_of(members, shown.metrics)
        wide = [wide_table(units, measures, m) for m in maps_of(members) if not shown.by]
        tables = [
            *(_remarked(table, "" if alike.setting else remark) for table in wide),
            rank_table(units, measures),
            best_counts(units, measures),
            *win_tables(units, measures),
            entities_overview(complete[alike], shown.by),
        ]
        if alike.setting:
            other = target_of(complete[alike], shown.baseline)
            tables.append(None if other is None else target_table(other))
        found += [_told(table, alike) for table in tables if table is not None]
    return found


def _remarked(table: Table | None, remark: str) -> Table | None:
    return replace(table, note=f"{table.note} {remark}") if table and remark else table


def _told(table: Table, alike: Alike) -> Table:
    """A table that says of which setting and values it is."""
    if not alike.words:
        return table
    name, title = f"{table.name} {alike.words}", f"{table.title} ({alike.words})"
    return replace(table, name=name, title=title)
