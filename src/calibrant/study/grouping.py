"""Groups of runs: by requested keys, by corpora that were trained alike, by depth and width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from calibrant.study.runs import Run, method_order, value_order

__all__ = [
    "Alike", "Units", "Values", "at_main_depth", "at_main_width", "at_shared_widths", "by_setting",
    "by_unit", "by_value", "describe_values", "group_by", "keys_of", "members_of", "methods_of",
    "varied", "with_enough_seeds", "with_several_depths",
]  # fmt: skip

Values = tuple[tuple[str, str], ...]  # Keys of recipes, each with its value in words
Units = Mapping[str, Sequence[Run]]  # corpus → its runs; all of one setting and depth


def group_by(runs: Iterable[Run], key: Callable[[Run], Any]) -> dict[Any, list[Run]]:
    """Group runs by ``key``; groups and runs keep their order."""
    found: dict[Any, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def by_unit(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Group runs by corpus and setting."""
    return group_by(runs, attrgetter("unit"))


def varied(groups: Iterable[Sequence[Run]]) -> list[str]:
    """Return the requested recipe keys that have several values within any of the groups.

    Options of methods do not count: a method with other options is another method.
    """
    found: dict[str, None] = {}
    for runs in groups:
        for place, (key, _) in enumerate(runs[0].extra if runs else ()):
            if len({run.extra[place] for run in runs}) > 1:
                found.setdefault(key)
    return list(found)


def by_value(runs: Sequence[Run], keys: Collection[str]) -> dict[Values, list[Run]]:
    """Group runs by the values of ``keys``, numbers by size; all under () without keys."""
    if not keys:
        return {(): list(runs)} if runs else {}

    def place(run: Run) -> list[Any]:
        settings = run.record.recipe.to_dict()
        return [value_order(settings[key]) for key, _ in run.extra if key in keys]

    found: dict[Values, list[Run]] = {}
    for run in sorted(runs, key=place):  # The sort is stable: within a value the order stays.
        found.setdefault(tuple(pair for pair in run.extra if pair[0] in keys), []).append(run)
    return found


def describe_values(values: Values) -> str:
    """Put keys and values into words.

    >>> describe_values((("learning_rate", "0.1"), ("model", "lenet")))
    'learning rate 0.1, model lenet'
    """
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in values)


class Alike(NamedTuple):
    """The setting and the requested values that runs share."""

    setting: str  # "" for the main setting of every corpus
    values: Values  # Of the requested keys that have several values on one corpus

    @property
    def words(self) -> str:
        """The setting and values for a title; may be empty."""
        return ", ".join(filter(None, [self.setting, describe_values(self.values)]))


def by_setting(runs: Sequence[Run]) -> dict[Alike, Units]:
    """Group runs by setting and requested values, then by corpus, at the main depth of each corpus.

    The main setting comes first. A key that only differs from corpus to corpus makes no group.
    """
    found: dict[Alike, Units] = {}
    for setting in sorted({run.setting for run in runs}):
        members = [run for run in runs if run.setting == setting]
        corpora = {
            corpus: at_main_depth([run for run in members if run.corpus == corpus])
            for corpus in sorted({run.corpus for run in members})
        }
        keys = varied(corpora.values())
        for values in by_value(members_of(corpora), keys):
            parts = {corpus: by_value(there, keys).get(values) for corpus, there in corpora.items()}
            found[Alike(setting, values)] = {c: there for c, there in parts.items() if there}
    return found


def members_of(units: Units) -> list[Run]:
    """Return the runs of all corpora."""
    return [run for runs in units.values() for run in runs]


def methods_of(units: Units) -> list[str]:
    """Return the methods of all corpora, in the order of tables."""
    return method_order({run.method for runs in units.values() for run in runs})


def keys_of(units: Units, method: str) -> tuple[str, ...]:
    """Return the keys of the records of one method."""
    return tuple(sorted(r.key for runs in units.values() for r in runs if r.method == method))


def with_enough_seeds(runs: Iterable[Run]) -> set[str]:
    """Return the methods with at least two seeds, or with one if no method has more.

    A single run does not show how far another seed would move it. It must not decide which seeds
    all other methods are compared on.
    """
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.method, set()).add(run.seed)
    least = min(2, max(map(len, seeds.values()), default=0))
    return {method for method, found in seeds.items() if len(found) >= least}


def at_main_depth(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of the most common depth; the table of depths has the others."""
    counts = Counter(run.depth for run in runs)
    main = min(counts, key=lambda depth: (-counts[depth], depth), default=None)
    return [run for run in runs if run.depth == main]


def at_main_width(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of the width that most methods, then most runs, have."""
    counts = Counter(run.width for run in runs)
    methods = Counter(width for _, width in {(run.method, run.width) for run in runs})
    main = min(methods, key=lambda w: (-methods[w], -counts[w], w), default=None)
    return [run for run in runs if run.width == main]


def at_shared_widths(runs: Sequence[Run]) -> list[Run]:
    """Return all runs if every method has every width; otherwise those of the main width.

    Averages over widths are then comparable.
    """
    widths = {run.width for run in runs}
    cells = {(run.method, run.width) for run in runs}
    complete = len(cells) == len(widths) * len({run.method for run in runs})
    return list(runs) if complete else at_main_width(runs)


def with_several_depths(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of methods and widths that were run at several depths and otherwise alike."""
    depths: dict[tuple[Any, ...], set[int]] = {}
    for run in runs:
        depths.setdefault((run.method, run.width, run.extra), set()).add(run.depth)
    return [run for run in runs if len(depths[run.method, run.width, run.extra]) > 1]
