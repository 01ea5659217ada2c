"""All tables and sentences that the reproduction adds to a study."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.study.grouping import (
    Alike,
    Units,
    Values,
    at_main_depth,
    by_setting,
    describe_values,
    members_of,
)
from calibrant.study.measures import in_parts, measures_of
from calibrant.study.study import Extra, StudyInputs
from calibrant.study.table import Table

from .best_counts import best_counts
from .claims import claims_of, claims_table, describe_claims
from .paper_table import paper_table
from .target_table import Target, describe_choice, describe_reach, target_of, target_table

__all__ = ["reproduction_tables"]

_FEW = 2  # Values of the requested keys, each with its own choice of a recipe, that fit a summary.


def reproduction_tables(inputs: StudyInputs) -> Extra:
    """Make the tables of claims, targets and printed numbers, and their sentences."""
    parts, complete = by_setting(inputs.runs), by_setting(inputs.complete)
    main = {alike.values: units for alike, units in parts.items() if not alike.setting}
    runs = [run for units in main.values() for run in members_of(units)]
    claims = claims_of(main, measures_of(runs, inputs.metrics), inputs.baseline)
    targets = _targets_of(complete, inputs.baseline)
    tables = [
        claims_table(claims, inputs.baseline),
        *(target_table(found).about(Alike("", v).words) for v, found in targets.items()),
        *_over_corpora(parts, complete, inputs),
        *_beside_papers(inputs),
    ]
    sentences = [*describe_claims(claims, inputs.baseline), *_describe_targets(targets)]
    return Extra([table for table in tables if table is not None], sentences)


def _targets_of(complete: Mapping[Alike, Units], baseline: str) -> dict[Values, Target]:
    """Return what to choose from in the main setting, for each value of the requested keys."""
    found = {
        alike.values: target_of(units, baseline)
        for alike, units in complete.items()
        if not alike.setting
    }
    return {values: target for values, target in found.items() if target is not None}


def _describe_targets(targets: Mapping[Values, Target]) -> list[str]:
    """Say which recipe to take; with many values of the requested keys, point to their tables."""
    if len(targets) > _FEW:
        keys = " and ".join(key.replace("_", " ") for key, _ in next(iter(targets)))
        return [f"Which recipe to take: a table for each of {len(targets)} values of {keys}."]
    sentences = []
    for values, target in targets.items():
        where = f"With {describe_values(values)}: " if values else ""
        sentences += [f"{where}{describe_choice(target)}", f"{where}{describe_reach(target)}"]
    return sentences


def _over_corpora(
    parts: Mapping[Alike, Units], complete: Mapping[Alike, Units], inputs: StudyInputs
) -> list[Table]:
    """Return the tables of each setting and value that has more than one corpus."""
    found: list[Table] = []
    for alike, units in parts.items():
        if len(units) < 2:
            continue
        tables = [best_counts(units, measures_of(members_of(units), inputs.metrics))]
        if alike.setting:
            other = target_of(complete[alike], inputs.baseline)
            tables.append(None if other is None else target_table(other))
        found += [table.about(alike.words) for table in tables if table is not None]
    return found


def _beside_papers(inputs: StudyInputs) -> list[Table]:
    """Return our numbers next to the papers', for each corpus and setting."""
    tables = []
    for unit in dict.fromkeys(run.unit for run in inputs.runs):
        runs = at_main_depth([run for run in inputs.runs if run.unit == unit])
        measures = measures_of([r for r in inputs.runs if r.unit == unit], inputs.metrics)
        for words, part in in_parts(measures).items():
            table = paper_table(runs, part, inputs.by)
            tables += [] if table is None else [table.part(words)]
    return tables
