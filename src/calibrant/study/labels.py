"""Recipes in words: what a method with its options is called, and what sets two recipes apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["corpus_names", "file_names", "method_label", "settings_label", "value_label"]


def corpus_names(data: Iterable[str]) -> dict[str, str]:
    """What to call each corpus: the last part of its path, or all of it where two share that.

    >>> corpus_names(["gum", "a/my", "b/my"])
    {'gum': 'gum', 'a/my': 'a/my', 'b/my': 'b/my'}
    """
    names = {place: Path(place).name for place in dict.fromkeys(data)}
    shared = Counter(names.values())
    return {place: name if shared[name] == 1 else place for place, name in names.items()}


def file_names(titles: Iterable[str]) -> list[str]:
    """Names fit for files, each another one.

    >>> file_names(["gum (batch 3) results", "gum batch-3 results"])
    ['gum-batch-3-results', 'gum-batch-3-results-2']
    """
    taken: Counter[str] = Counter()
    found = []
    for title in titles:
        name = "-".join("".join(c if c.isalnum() else " " for c in title).split())
        taken[name.casefold()] += 1  # Some disks do not tell A from a.
        count = taken[name.casefold()]
        found.append(name if count == 1 else f"{name}-{count}")
    return found


def method_label(method: str, options: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """The name with its options, but for those ``without``.

    >>> method_label("focal", {"gamma": 3.0})
    'focal (gamma 3)'
    >>> method_label("head_noise", {"weight": 0.25, "noise": {"name": "shell"}}, ["weight"])
    'head_noise (noise shell)'
    """
    shown = {key: value for key, value in sorted(options.items()) if key not in without}
    return f"{method} ({settings_label(shown)})" if shown else method


def settings_label(settings: Mapping[str, Any]) -> str:
    """Keys and values in a row.

    >>> settings_label({"learning_rate": 1e-4, "batch": 3})
    'learning rate 0.0001, batch 3'
    """
    return ", ".join(
        f"{key.replace('_', ' ')} {value_label(value)}" for key, value in settings.items()
    )


def value_label(value: Any) -> str:
    """A value as a reader wants it.

    >>> [value_label(v) for v in (3.0, True, 1e-05, {"name": "shell", "scale": 2}, [1, 2], None)]
    ['3', 'true', '1e-05', 'shell scale 2', '1 2', 'none']
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        name = [value_label(value["name"])] if "name" in value else []
        rest = {key: v for key, v in sorted(value.items()) if key != "name"}
        return " ".join([*name, *(f"{key} {value_label(v)}" for key, v in rest.items())])
    if isinstance(value, list | tuple):
        return " ".join(map(value_label, value))
    return str(value)
