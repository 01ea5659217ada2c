"""A study: everything that the records of many runs say together, as tables of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.errors import unknown_name
from calibrant.experiments.record import Record
from calibrant.study.comparison_table import comparison_table
from calibrant.study.measures import check_metrics, measures_of
from calibrant.study.origins import missing, origins
from calibrant.study.result_tables import at_main_depth, depth_table, pooled_table, width_table
from calibrant.study.runs import BASELINE, Run, arrange
from calibrant.study.shift_tables import shift_tables
from calibrant.study.summary_tables import best_counts, rank_table, win_table
from calibrant.study.table import Table

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

    def to_dict(self) -> dict[str, Any]:
        """As data: all that the report says, less its pictures."""
        return {
            "baseline": self.baseline,
            "by": list(self.by),
            "tables": [table.to_dict() for table in self.tables],
            "missing": list(self.missing),
            "origins": self.origins,
        }


def build_study(
    records: Iterable[Record],
    *,
    by: Sequence[str] = (),
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
) -> Study:
    """What records say, whatever their order.

    ``by`` names keys of the recipe, or options of methods, that get columns of their own;
    ``baseline`` is the method that all others are tested against, with its options as the tables
    write them; ``metrics`` are those of the tables. Records that differ in any other key are kept
    apart, so that only what was trained alike is compared.
    """
    runs = arrange(records, by)
    methods = {run.method for run in runs}
    if baseline is not None and baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    base = baseline or BASELINE
    check_metrics(runs, metrics or ())
    tables = [*_summaries(runs, metrics), *_by_unit(runs, metrics, by, base)]
    return Study(
        tuple(runs),
        tuple(by),
        base,
        None if metrics is None else tuple(metrics),
        tuple(_named(tables)),
        tuple(missing(runs, metrics)),
        origins(runs),
    )


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


def _summaries(runs: Sequence[Run], metrics: Sequence[str] | None) -> list[Table]:
    """The tables over corpora, one set per setting that has more than one corpus."""
    found: list[Table] = []
    for setting in dict.fromkeys(run.setting for run in runs):
        members = [run for run in runs if run.setting == setting]
        measures = measures_of(members, metrics)
        units = {
            corpus: at_main_depth([run for run in members if run.corpus == corpus])
            for corpus in sorted({run.corpus for run in members})
        }
        if len(units) < 2:
            continue
        tables = [
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
    taken: dict[str, int] = {}
    named = []
    for table in tables:
        words = f"{table.unit} {table.name}".strip()
        name = "-".join("".join(c if c.isalnum() else " " for c in words).split())
        taken[name] = taken.get(name, 0) + 1
        named.append(replace(table, name=name if taken[name] == 1 else f"{name}-{taken[name]}"))
    return named
