"""The settings of runs, and recipes in words.

Only runs that were trained alike are compared. Runs of one corpus are separated if they differ
in a key without a place in the tables. A key that only differs from corpus to corpus does not
separate runs, and neither does a key that follows from the model if models are shown side by side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.recipe import Recipe

__all__ = [
    "AXES",
    "BESIDES",
    "corpus_names",
    "describe_by_corpus",
    "file_names",
    "following",
    "main_settings",
    "method_label",
    "settings_label",
    "settings_of",
    "shared_settings",
    "value_label",
]

# Keys with a place in the tables; any other key that differs makes a separate setting.
AXES = ("data", "method", "method_options", "head_width", "head_depth", "seed")
# Keys of measuring and using a run; they do not change its training.
BESIDES = ("shift", "measure", "calibrator")

Settings = dict[str, Any]


def settings_of(recipe: Recipe, by: Sequence[str] = ()) -> Settings:
    """Return the keys of a recipe that have no place in the tables."""
    without = {*AXES, *BESIDES, *by}
    return {key: value for key, value in recipe.to_dict().items() if key not in without}


def following(recipes: Sequence[Recipe], by: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that differ between models but not within one; none unless models are shown.

    >>> image = [Recipe(model="lenet", epochs=15), Recipe(model="vit_tiny", epochs=30)]
    >>> following(image, ["model"]), following(image, ["batch"])
    (('epochs',), ())
    """
    if "model" not in by:
        return ()
    found: dict[str, set[tuple[str, str]]] = {}
    for recipe in recipes:
        for key, value in settings_of(recipe, by).items():
            found.setdefault(key, set()).add((recipe.model, json.dumps(value)))
    models = {recipe.model for recipe in recipes}
    return tuple(
        key
        for key, pairs in found.items()
        if len(pairs) == len(models) and len({value for _, value in pairs}) > 1
    )


def main_settings(recipes: Sequence[Recipe], by: Sequence[str] = ()) -> dict[str, Settings]:
    """Return corpus → the setting that most of its recipes have.

    Ties go to the setting with the most recipes on all corpora.
    """
    texts = [json.dumps(settings_of(recipe, by)) for recipe in recipes]
    everywhere = Counter(texts)
    found = {}
    for corpus in sorted({recipe.data for recipe in recipes}):
        there = Counter(
            t for t, recipe in zip(texts, recipes, strict=True) if recipe.data == corpus
        )
        found[corpus] = json.loads(min(there, key=lambda t: (-there[t], -everywhere[t], t)))
    return found


def shared_settings(main: Mapping[str, Settings]) -> Settings:
    """Return the keys that have one value on all corpora.

    >>> shared_settings({"gum": {"batch": 32, "epochs": 10}, "my": {"batch": 64, "epochs": 10}})
    {'epochs': 10}
    """
    first, *others = main.values()
    return {k: v for k, v in first.items() if all(other[k] == v for other in others)}


def describe_by_corpus(main: Mapping[str, Settings]) -> dict[str, str]:
    """Describe the other keys: the value of most corpora (or models), then the exceptions.

    >>> batch = {"conll2003": {"batch": 64}, "gum": {"batch": 32}, "wikiann": {"batch": 64}}
    >>> describe_by_corpus(batch)
    {'batch': '64 (32 on gum)'}
    """
    shared = shared_settings(main)
    found = {}
    for key in next(iter(main.values())):
        if key in shared:
            continue
        places: dict[str, list[str]] = {}
        for corpus, settings in main.items():
            places.setdefault(value_label(settings[key]), []).append(corpus)
        first, *others = sorted(places, key=lambda value: -len(places[value]))
        exceptions = (f"{value} on {', '.join(places[value])}" for value in others)
        found[key] = f"{first} ({'; '.join(exceptions)})"
    return found


def corpus_names(data: Iterable[str]) -> dict[str, str]:
    """Name each corpus by the last part of its path, or by all of it if two share that.

    >>> corpus_names(["gum", "a/my", "b/my"])
    {'gum': 'gum', 'a/my': 'a/my', 'b/my': 'b/my'}
    """
    names = {place: Path(place).name for place in dict.fromkeys(data)}
    shared = Counter(names.values())
    return {place: name if shared[name] == 1 else place for place, name in names.items()}


def file_names(titles: Iterable[str]) -> list[str]:
    """Turn titles into distinct file names.

    >>> file_names(["gum (batch 3) results", "gum batch-3 results"])
    ['gum-batch-3-results', 'gum-batch-3-results-2']
    """
    taken: Counter[str] = Counter()
    found = []
    for title in titles:
        name = "-".join("".join(c if c.isalnum() else " " for c in title).split())
        taken[name.casefold()] += 1  # Some disks do not distinguish A from a.
        count = taken[name.casefold()]
        found.append(name if count == 1 else f"{name}-{count}")
    return found


def method_label(method: str, options: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Return the method with its options, except those in ``without``.

    >>> method_label("focal", {"gamma": 3.0})
    'focal (gamma 3)'
    >>> method_label("head_noise", {"weight": 0.25, "noise": {"name": "shell"}}, ["weight"])
    'head_noise (noise shell)'
    """
    shown = {key: value for key, value in sorted(options.items()) if key not in without}
    return f"{method} ({settings_label(shown)})" if shown else method


def settings_label(settings: Mapping[str, Any]) -> str:
    """Put keys and values into one line.

    >>> settings_label({"learning_rate": 1e-4, "batch": 3})
    'learning rate 0.0001, batch 3'
    """
    return ", ".join(
        f"{key.replace('_', ' ')} {value_label(value)}" for key, value in settings.items()
    )


def value_label(value: Any) -> str:
    """Put a value into words.

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
