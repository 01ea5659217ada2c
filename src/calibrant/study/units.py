"""Corpora of one setting: what the tables over all corpora are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from calibrant.study.main_head import at_main_depth
from calibrant.study.runs import Run, method_order

__all__ = ["Units", "by_setting", "keys_of", "methods_of", "with_enough_seeds"]

Units = Mapping[str, Sequence[Run]]  # corpus → its runs; all of one setting and depth


def by_setting(runs: Sequence[Run]) -> dict[str, Units]:
    """Setting → its corpora, each with its runs at the depth that most of them have.

    The main setting of every corpus comes first, under "".
    """
    found: dict[str, Units] = {}
    for setting in sorted({run.setting for run in runs}):
        members = [run for run in runs if run.setting == setting]
        found[setting] = {
            corpus: at_main_depth([run for run in members if run.corpus == corpus])
            for corpus in sorted({run.corpus for run in members})
        }
    return found


def methods_of(units: Units) -> list[str]:
    """The methods that were run on any corpus, in the order of tables."""
    return method_order({run.method for runs in units.values() for run in runs})


def keys_of(units: Units, method: str) -> tuple[str, ...]:
    """The records of one method."""
    return tuple(sorted(r.key for runs in units.values() for r in runs if r.method == method))


def with_enough_seeds(runs: Iterable[Run]) -> set[str]:
    """The methods with at least two seeds, or with one where no method has more.

    What was run once says nothing of how far another seed would move it, so it must not decide
    which seeds all others are compared on.
    """
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.method, set()).add(run.seed)
    least = min(2, max(map(len, seeds.values()), default=0))
    return {method for method, found in seeds.items() if len(found) >= least}
