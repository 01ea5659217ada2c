"""The keys that were asked for, where they differ: what has another value is not pooled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from calibrant.study.runs import Run, value_order

__all__ = ["Values", "by_value", "told_values", "varied"]

Values = tuple[tuple[str, str], ...]  # Keys of recipes, each with its value in words


def varied(groups: Iterable[Sequence[Run]]) -> list[str]:
    """The keys of recipes that were asked for and have several values within any of the groups.

    Options of methods are none of them: a method with other options is another method.
    """
    found: dict[str, None] = {}
    for runs in groups:
        for place, (key, _) in enumerate(runs[0].extra if runs else ()):
            if len({run.extra[place] for run in runs}) > 1:
                found.setdefault(key)
    return list(found)


def by_value(runs: Sequence[Run], keys: Collection[str]) -> dict[Values, list[Run]]:
    """The runs of each value of ``keys``, numbers by size; all under () without keys."""
    if not keys:
        return {(): list(runs)} if runs else {}

    def place(run: Run) -> list[Any]:
        settings = run.record.recipe.to_dict()
        return [value_order(settings[key]) for key, _ in run.extra if key in keys]

    found: dict[Values, list[Run]] = {}
    for run in sorted(runs, key=place):  # The sort is stable: within a value the order stays.
        found.setdefault(tuple(pair for pair in run.extra if pair[0] in keys), []).append(run)
    return found


def told_values(values: Values) -> str:
    """In words.

    >>> told_values((("learning_rate", "0.1"), ("model", "lenet")))
    'learning rate 0.1, model lenet'
    """
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in values)
