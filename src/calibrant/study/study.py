"""A study: everything that the records of many runs say together, as tables of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.errors import unknown_name
from calibrant.experiments.record import Record
from calibrant.study.claims import claims_of, claims_table
from calibrant.study.comparison_table import comparison_tables
from calibrant.study.corpora_tables import Shown, corpora_tables, target_tables, targets_of
from calibrant.study.depth_table import depth_table
from calibrant.study.entities_table import entities_table
from calibrant.study.labels import file_names
from calibrant.study.main_head import at_main_depth
from calibrant.study.maps_table import maps_table
from calibrant.study.measures import check_metrics, maps_of, measures_of, with_maps
from calibrant.study.origins import missing, origins
from calibrant.study.outside_table import outside_table
from calibrant.study.result_tables import result_tables
from calibrant.study.runs import BASELINE, Run, arrange
from calibrant.study.shift_tables import shift_tables
from calibrant.study.summary import summarize, told_settings
from calibrant.study.table import Table, set_name
from calibrant.study.units import by_setting, members_of
from calibrant.study.worst_shift_table import worst_shift_tables

__all__ = ["Study", "build_study"]


@dataclass(frozen=True, eq=False)
class Study:
    """The runs, the tables made of them, what is missing, and where all came from.

    The runs hold the maps that the figures and most tables show, not all that the records have.
    """

    runs: tuple[Run, ...]
    by: tuple[str, ...]
    baseline: str
    metrics: tuple[str, ...] | None
    tables: tuple[Table, ...]
    summary: tuple[str, ...]
    missing: tuple[str, ...]
    origins: dict[str, Any]

    @property
    def units(self) -> dict[str, list[Run]]:
        """Corpus and setting → its runs."""
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.unit, []).append(run)
        return found

    @property
    def record_sets(self) -> list[tuple[str, ...]]:
        """Every set of records that a row of a table was made of."""
        return sorted({row.keys for table in self.tables for row in table.rows if row.keys})

    def to_dict(self) -> dict[str, Any]:
        """As data: all that the report says, less its pictures."""
        return {
            "baseline": self.baseline,
            "by": list(self.by),
            "summary": list(self.summary),
            "tables": [table.to_dict() for table in self.tables],
            "record_sets": {set_name(keys): list(keys) for keys in self.record_sets},
            "missing": list(self.missing),
            "origins": self.origins,
        }


def build_study(
    records: Iterable[Record],
    *,
    by: Sequence[str] = (),
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    maps: Sequence[str] | None = None,
) -> Study:
    """What records say, whatever their order.

    ``by`` names keys of the recipe, or options of methods, that get columns of their own;
    ``baseline`` is the method that all others are tested against, with its options as the tables
    write them; ``metrics`` are those of the tables. ``maps`` are the post-hoc maps of most tables
    (identity and temperature; ``["all"]`` for all); which recipe to take, and the table of maps,
    always have all. Records of one corpus that differ in any other key are kept apart, so that only
    what was trained alike is compared.
    """
    full = arrange(records, by)
    runs = with_maps(full, maps)
    base = baseline or BASELINE
    methods = {run.method for run in runs}
    if baseline is not None and baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    check_metrics(runs, metrics or ())
    shown = Shown(metrics, tuple(by), base)
    parts, complete = by_setting(runs), by_setting(full)
    main = {alike.values: units for alike, units in parts.items() if not alike.setting}
    measures = measures_of([run for units in main.values() for run in members_of(units)], metrics)
    claims, targets = claims_of(main, measures, base), targets_of(complete, base)
    gone = missing(runs, metrics)
    claimed = claims_table(claims, base)
    tables = [
        *([] if claimed is None else [claimed]),
        *target_tables(targets),
        *corpora_tables(parts, complete, shown, told_settings(runs, by)),
        *_by_unit(runs, full, shown),
    ]
    return Study(
        tuple(runs),
        tuple(by),
        base,
        None if metrics is None else tuple(metrics),
        tuple(_named(tables)),
        tuple(summarize(runs, by, claims, targets, gone, base)),
        tuple(gone),
        origins(runs, by),
    )


def _by_unit(runs: Sequence[Run], full: Sequence[Run], shown: Shown) -> list[Table]:
    tables: list[Table | None] = []
    for unit in dict.fromkeys(run.unit for run in runs):
        members = [run for run in runs if run.unit == unit]
        main, measures = at_main_depth(members), measures_of(members, shown.metrics)
        complete = at_main_depth([run for run in full if run.unit == unit])
        tables += [
            *result_tables(main, measures, shown.by),
            *comparison_tables(main, measures, shown.baseline),
            maps_table(complete, maps_of(main), shown.by),
            depth_table(members, measures, shown.by),
            entities_table(complete, shown.by),
            outside_table(main, shown.by),
            *worst_shift_tables(main, shown.by),
            *shift_tables(main, shown.by),
        ]
    return [table for table in tables if table is not None]


def _named(tables: Iterable[Table]) -> list[Table]:
    """Every table with a name of its own, fit for a file."""
    tables = list(tables)
    names = file_names(f"{table.unit} {table.name}" for table in tables)
    return [replace(table, name=name) for table, name in zip(tables, names, strict=True)]
