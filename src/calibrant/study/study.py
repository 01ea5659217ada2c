"""A study: the comparison of many runs as tables of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from calibrant.errors import InputError, unknown_name
from calibrant.experiments.record import TITLES, Record, located_records
from calibrant.inputs import nearest_path
from calibrant.metrics.table import with_new_names
from calibrant.old_names import renamed_arguments, warn_renamed
from calibrant.study.class_tables import class_tables
from calibrant.study.comparison_table import comparison_tables
from calibrant.study.corpora_tables import wide_table, win_tables
from calibrant.study.grouping import at_main_depth, by_setting, by_unit, members_of
from calibrant.study.measures import calibrators_of, check_metrics, measures_of, with_calibrators
from calibrant.study.method_tables import (
    entities_overview,
    entities_table,
    maps_table,
    out_of_scope_table,
)
from calibrant.study.ranks import rank_table
from calibrant.study.result_tables import depth_table, result_tables
from calibrant.study.runs import BASELINE, Run, arrange, left_out
from calibrant.study.settings import file_names
from calibrant.study.shift_tables import shift_tables, worst_shift_tables
from calibrant.study.summary import describe_settings, missing, origins, summarize
from calibrant.study.table import Table, set_name

__all__ = ["Extra", "Study", "StudyInputs", "build_study", "read_all", "read_titles"]

_ROUNDED = 6e-6  # The relative distance of a number from the same with six digits, at most.


@dataclass(frozen=True, eq=False)
class Study:
    """The runs, their tables, what is missing, and where the numbers come from.

    The runs hold the calibrators that the figures and most tables show, not all of the records.

    >>> from calibrant.experiments.recipe import Recipe
    >>> from calibrant.experiments.record import Record
    >>> def record(method, seed, ece):
    ...     numbers = {"accuracy": 0.9, "ece": ece}
    ...     results = {"identity": {"valid": numbers, "test": numbers}}
    ...     return Record(Recipe(data="gum", method=method, seed=seed), results, {}, {})
    >>> found = {"cross_entropy": (0.08, 0.09), "focal": (0.05, 0.06)}
    >>> study = build_study(record(m, s, ece) for m in found for s, ece in enumerate(found[m]))
    >>> for row in study.tables[0].rows:
    ...     print(row.labels[0], row.entries[2].text)
    cross_entropy 0.0850 ± 0.0635
    focal 0.0550 ± 0.0635
    """

    runs: tuple[Run, ...]
    by: tuple[str, ...]
    baseline: str
    metrics: tuple[str, ...] | None
    tables: tuple[Table, ...]
    summary: tuple[str, ...]
    missing: tuple[str, ...]
    origins: dict[str, Any]
    title: str = ""  # Of the recipes; may be empty

    @property
    def units(self) -> dict[str, list[Run]]:
        """Corpus and setting → its runs."""
        return by_unit(self.runs)

    @property
    def record_sets(self) -> list[tuple[str, ...]]:
        """Every set of records behind a row of a table."""
        return sorted({row.keys for table in self.tables for row in table.rows if row.keys})

    def to_dict(self) -> dict[str, Any]:
        """Return the report as data, without its pictures."""
        return {
            "title": self.title,
            "baseline": self.baseline,
            "by": list(self.by),
            "summary": list(self.summary),
            "tables": [table.to_dict() for table in self.tables],
            "record_sets": {set_name(keys): list(keys) for keys in self.record_sets},
            "missing": list(self.missing),
            "origins": self.origins,
        }


@dataclass(frozen=True)
class StudyInputs:
    """What the tables of a study are made from.

    >>> from calibrant.experiments.recipe import Recipe
    >>> from calibrant.experiments.record import Record
    >>> part = {"identity": {"valid": {"ece": 0.05}, "test": {"ece": 0.06}}}
    >>> records = [Record(Recipe(data="gum", seed=seed), part, {}, {}) for seed in range(3)]
    >>> def count(inputs):
    ...     return Extra(sentences=[f"{len(inputs.runs)} runs with {inputs.runs[0].method}."])
    >>> "3 runs with cross_entropy." in build_study(records, extra_tables=count).summary
    True
    """

    runs: Sequence[Run]  # With the calibrators that most tables show.
    complete: Sequence[Run]  # The same runs with all calibrators.
    by: tuple[str, ...]
    baseline: str
    metrics: tuple[str, ...] | None


class Extra(NamedTuple):
    """Tables that a caller adds to a study, and sentences for its summary.

    >>> Extra(sentences=["Trained on one GPU."]).sentences
    ['Trained on one GPU.']
    """

    tables: Sequence[Table] = ()
    sentences: Sequence[str] = ()


@renamed_arguments(maps="calibrators")
def build_study(
    records: Iterable[Record],
    *,
    by: Sequence[str] = (),
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    calibrators: Sequence[str] | None = None,
    extra_tables: Callable[[StudyInputs], Extra] | None = None,
    title: str = "",
) -> Study:
    """Compare the runs behind the records; their order does not matter.

    ``by`` names keys of the recipe, or options of methods, that get their own columns.
    ``baseline`` is the method that all others are tested against, with its options as the tables
    write them. ``metrics`` are the columns of the tables. ``calibrators`` are those of most
    tables (default: identity and temperature; ``["all"]`` for all); the table of calibrators always
    has all. ``extra_tables`` returns further tables and sentences; they
    come first.

    Only runs that were trained alike are compared: records of one corpus that differ in any other
    key are kept apart.

    >>> from calibrant.experiments.recipe import Recipe
    >>> from calibrant.experiments.record import Record
    >>> part = {"identity": {"valid": {"ece": 0.05}, "test": {"ece": 0.06}}}
    >>> methods = ("cross_entropy", "focal")
    >>> records = [Record(Recipe(data="gum", method=method), part, {}, {}) for method in methods]
    >>> for sentence in build_study(records).summary[:2]:
    ...     print(sentence)
    2 records of 1 corpus (gum); minilm; heads of width 128 and depth 1; 1 seed.
    2 methods: cross_entropy, focal.
    """
    records = list(records)
    complete = arrange(records, by)
    runs = with_calibrators(complete, calibrators)
    methods = {run.method for run in runs}
    if baseline is not None and baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    chosen = None if metrics is None else tuple(with_new_names(dict.fromkeys(metrics)))
    for old in metrics or ():
        if old not in (chosen or ()):
            warn_renamed(f"The metric '{old}'", f"'{next(iter(with_new_names({old: None})))}'")
    check_metrics(runs, chosen or ())
    inputs = StudyInputs(runs, complete, tuple(by), baseline or BASELINE, chosen)
    extra = Extra() if extra_tables is None else extra_tables(inputs)
    gone = [*missing(runs, chosen), *_untested(runs, inputs.baseline), *left_out(records)]
    return Study(
        tuple(runs),
        inputs.by,
        inputs.baseline,
        inputs.metrics,
        tuple(_named([*extra.tables, *_over_corpora(inputs), *_by_unit(inputs)])),
        tuple(summarize(runs, by, gone, extra.sentences)),
        tuple(gone),
        origins(runs, by),
        title,
    )


def _untested(runs: Sequence[Run], baseline: str) -> list[str]:
    """List the settings whose methods have no baseline next to them, where others have one."""
    found = []
    if baseline in {run.method for run in runs}:
        for unit, members in by_unit(runs).items():
            methods = {run.method for run in members}
            if baseline not in methods and len(methods) > 1:
                found.append(f"{unit}: {baseline}, against which its methods would be tested.")
    return found


def _over_corpora(inputs: StudyInputs) -> list[Table]:
    """Make the tables of each setting and value that has more than one corpus."""
    complete, settings = by_setting(inputs.complete), describe_settings(inputs.runs, inputs.by)
    found: list[Table] = []
    for alike, units in by_setting(inputs.runs).items():
        if len(units) < 2:
            continue
        members = members_of(units)
        measures = measures_of(members, inputs.metrics)
        wide = [wide_table(units, measures, m) for m in calibrators_of(members) if not inputs.by]
        tables = [
            *(_remarked(table, "" if alike.setting else settings) for table in wide),
            rank_table(units, measures),
            *win_tables(units, measures),
            entities_overview(complete[alike], inputs.by),
        ]
        found += [table.about(alike.words) for table in tables if table is not None]
    return found


def _remarked(table: Table | None, remark: str) -> Table | None:
    return replace(table, note=f"{table.note} {remark}") if table and remark else table


def _by_unit(inputs: StudyInputs) -> list[Table]:
    """Make the tables of each corpus and setting."""
    tables: list[Table | None] = []
    all_calibrators = by_unit(inputs.complete)
    for unit, members in by_unit(inputs.runs).items():
        main, measures = at_main_depth(members), measures_of(members, inputs.metrics)
        complete = at_main_depth(all_calibrators[unit])
        tables += [
            *result_tables(main, measures, inputs.by),
            *comparison_tables(main, measures, inputs.baseline),
            maps_table(complete, calibrators_of(main), inputs.by),
            depth_table(members, measures, inputs.by),
            entities_table(complete, inputs.by),
            out_of_scope_table(main, inputs.by),
            *class_tables(main, inputs.by),
            *worst_shift_tables(main, inputs.by),
            *shift_tables(main, inputs.by),
        ]
    return [table for table in tables if table is not None]


def _named(tables: Iterable[Table]) -> list[Table]:
    """Give every table a distinct name that is fit for a file."""
    tables = list(tables)
    names = file_names(f"{table.unit} {table.name}" for table in tables)
    return [replace(table, name=name) for table, name in zip(tables, names, strict=True)]


def read_all(paths: Iterable[str | Path]) -> list[Record]:
    """Read each record once; the same run with different numbers is an error.

    A run that was repeated, or whose numbers were rounded to six digits, is the same.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant.experiments.recipe import Recipe
    >>> part = {"identity": {"valid": {"ece": 0.05}, "test": {"ece": 0.06}}}
    >>> with TemporaryDirectory() as folder:
    ...     for seed in range(3):
    ...         _ = Record(Recipe(data="gum", seed=seed), part, {}, {}).write(Path(folder))
    ...     [record.recipe.seed for record in read_all([folder])]
    [0, 1, 2]
    """
    found: dict[str, tuple[str, Record]] = {}
    sources = [Path(path) for path in paths]
    for path in sources:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.{nearest_path(path)}")
        for where, record in located_records(path):
            earlier, other = found.setdefault(record.recipe.key, (where, record))
            if differs := _difference(other.results, record.results):
                raise InputError(
                    f"{record.recipe.key} occurs twice with different contents: {earlier} and "
                    f"{where} differ in {differs}; give one of these files, or keep one record."
                )
    if not found:
        raise InputError(
            f"No records in {', '.join(map(str, sources)) or 'nothing'}: 'calibrant bench' makes "
            "them (KEY.json in a folder, or lines of a .jsonl file)."
        )
    return [found[key][1] for key in sorted(found)]


def read_titles(paths: Iterable[str | Path]) -> str:
    """Return the titles of the recipes behind the records in folders, each once.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "titles.txt").write_text("Depth of heads\\n")
    ...     read_titles([folder])
    'Depth of heads'
    """
    files = [Path(path) / TITLES for path in paths]
    lines = [
        line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()
    ]
    return "; ".join(dict.fromkeys(filter(None, map(str.strip, lines))))


def _difference(one: Any, other: Any, where: str = "its results") -> str | None:
    """Name the first number in which two results differ by more than rounding, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f"{where}: {', '.join(sorted(map(str, one.keys() ^ other.keys())))}"
        parts = (_difference(value, other[key], str(key)) for key, value in one.items())
        found = next(filter(None, parts), None)
        return found and (found if where == "its results" else f"{where} {found}")
    if _is_number(one) and _is_number(other):
        same = math.isclose(one, other, rel_tol=_ROUNDED, abs_tol=1e-9)
        return None if same or (one != one and other != other) else f"{where}: {one} and {other}"
    return None if one == other else f"{where}: {one} and {other}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
