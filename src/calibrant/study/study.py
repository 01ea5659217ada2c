"""A study: everything that the records of many runs say together, as tables of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.errors import unknown_name
from calibrant.experiments.record import Record
from calibrant.study.best_counts import best_counts
from calibrant.study.comparison_table import comparison_table
from calibrant.study.depth_table import at_main_depth, depth_table
from calibrant.study.labels import file_names
from calibrant.study.measures import check_metrics, maps_of, measures_of
from calibrant.study.origins import missing, origins
from calibrant.study.rank_table import rank_table
from calibrant.study.result_tables import pooled_table, width_table
from calibrant.study.runs import BASELINE, Run, arrange
from calibrant.study.shift_tables import shift_tables
from calibrant.study.table import Table, set_name
from calibrant.study.target_table import target_table
from calibrant.study.units import by_setting
from calibrant.study.wide_table import wide_table
from calibrant.study.win_table import win_table

__all__ = ["Study", "build_study"]


@dataclass(frozen=True, eq=False)
class Study:
    """The runs, the tables made of them, what is missing, and where all came from."""

    runs: tuple[Run, ...]
    by: tuple[str, ...]
    baseline: str
    metrics: tuple[str, ...] | None
    tables: tuple[Table, ...]
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
    write them; ``metrics`` are those of the tables and ``maps`` the post-hoc maps. Records that
    differ in any other key are kept apart, so that only what was trained alike is compared.
    """
    runs = arrange(records if maps is None else _with_maps(records, maps), by)
    methods = {run.method for run in runs}
    if baseline is not None and baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    base = baseline or BASELINE
    check_metrics(runs, metrics or ())
    tables = [*_summaries(runs, metrics, by, base), *_by_unit(runs, metrics, by, base)]
    return Study(
        tuple(runs),
        tuple(by),
        base,
        None if metrics is None else tuple(metrics),
        tuple(_named(tables)),
        tuple(missing(runs, metrics)),
        origins(runs, by),
    )


def _with_maps(records: Iterable[Record], maps: Sequence[str]) -> list[Record]:
    records = list(records)
    known = {name for record in records for name in record.results}
    for name in maps:
        if name not in known:
            raise unknown_name("map", name, known)
    return [
        replace(record, results={m: v for m, v in record.results.items() if m in maps})
        for record in records
    ]


def _by_unit(
    runs: Sequence[Run], metrics: Sequence[str] | None, by: Sequence[str], baseline: str
) -> list[Table]:
    tables: list[Table | None] = []
    for unit in dict.fromkeys(run.unit for run in runs):
        members = [run for run in runs if run.unit == unit]
        main, measures = at_main_depth(members), measures_of(members, metrics)
        tables += [
            pooled_table(main, measures, by),
            width_table(main, measures, by),
            comparison_table(main, measures, baseline),
            depth_table(members, measures, by),
            *shift_tables(main, by),
        ]
    return [table for table in tables if table is not None]


def _summaries(
    runs: Sequence[Run], metrics: Sequence[str] | None, by: Sequence[str], baseline: str
) -> list[Table]:
    """The tables over corpora, one set per setting that has more than one corpus."""
    found: list[Table] = []
    for setting, units in by_setting(runs).items():
        if len(units) < 2:
            continue
        members = [run for corpus in units.values() for run in corpus]
        measures = measures_of(members, metrics)
        tables = [
            *(wide_table(units, measures, map_) for map_ in maps_of(members) if not by),
            target_table(units, baseline),
            rank_table(units, measures),
            best_counts(units, measures),
            *(win_table(units, measure) for measure in measures if measure.sign),
        ]
        found += [
            replace(table, title=f"{table.title} ({setting})" if setting else table.title)
            for table in tables
            if table is not None
        ]
    return found


def _named(tables: Iterable[Table]) -> list[Table]:
    """Every table with a name of its own, fit for a file."""
    tables = list(tables)
    names = file_names(f"{table.unit} {table.name}" for table in tables)
    return [replace(table, name=name) for table, name in zip(tables, names, strict=True)]
