"""Records as runs, each with its corpus, its method and the key that pairs it with others."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record
from calibrant.study.settings import (
    AXES,
    BESIDES,
    corpus_names,
    following,
    main_settings,
    method_label,
    settings_label,
    settings_of,
    value_label,
)

__all__ = [
    "BASELINE",
    "Run",
    "arrange",
    "cells",
    "left_out",
    "main_by_corpus",
    "main_by_model",
    "method_order",
    "value_order",
]

BASELINE = "cross_entropy"
_WRAPPED = "fine-tuned elsewhere"  # Nobody knows how a wrapped model was trained.
# Tables begin with these methods, in this order; the others follow by name.
_FIRST = (
    "cross_entropy", "avuc", "error_regularization", "head_noise",
    "head_noise_error_regularization",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Run:
    """A record with its place in the tables."""

    record: Record
    key: str
    corpus: str
    setting: str  # Other keys, where they differ from the corpus' main setting: "batch 3"
    method: str  # With all options
    shown: str  # The method without the options that have their own column
    by: tuple[Any, ...]  # The values of the requested keys
    extra: tuple[tuple[str, str], ...]  # Requested recipe keys, with their values in words
    width: int
    depth: int
    seed: int

    @property
    def unit(self) -> str:
        """Corpus and setting; runs of one unit may be compared."""
        return f"{self.corpus} ({self.setting})" if self.setting else self.corpus

    @property
    def pair(self) -> tuple[Any, ...]:
        """What a run shares with its counterpart of another method."""
        return (self.width, self.depth, self.extra, self.seed)

    def part(self, calibrator: str, part: str = "test") -> Mapping[str, Any]:
        """Return the numbers of a part ("test", "shift/NAME") after a calibrator; may be empty."""
        found: Any = self.record.results.get(calibrator, {})
        for name in part.split("/", 1):
            found = found.get(name, {})
        return found if isinstance(found, Mapping) else {}

    def value(self, metric: str, calibrator: str = "identity", part: str = "test") -> float:
        """Return a number of the record; NaN if missing, or for the APCR of 0 of older records."""
        value = float(self.part(calibrator, part).get(metric, math.nan))
        return math.nan if metric == "apcr" and value == 0 else value

    def some_value(self, metric: str, part: str = "test") -> float:
        """Return a number of the first calibrator that has it; NaN if none does."""
        found = (self.value(metric, calibrator, part) for calibrator in self.record.results)
        return next((value for value in found if not math.isnan(value)), math.nan)


def arrange(records: Iterable[Record], by: Sequence[str] = ()) -> list[Run]:
    """Turn records into runs, in an order that does not depend on theirs."""
    unique = [first for first, *_ in _trainings(records).values()]
    if not unique:
        raise InputError("A study needs at least one record, got none.")
    recipes = [record.recipe for record in unique]
    _check_keys(by, recipes)
    main = main_settings(recipes, (*by, *following(recipes, by)))
    names = corpus_names(recipe.data for recipe in recipes)
    runs = [
        _run(record, names[record.recipe.data], by, main[record.recipe.data]) for record in unique
    ]
    order = {label: place for place, label in enumerate(method_order({r.shown for r in runs}))}

    def place(run: Run) -> tuple[Any, ...]:
        requested = [value_order(value) for value in run.by]
        where = (run.unit, order[run.shown], run.width, requested, run.method)
        return (*where, run.depth, run.seed, run.key)

    return sorted(runs, key=place)


def main_by_corpus(runs: Iterable[Run], by: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return corpus → its main setting, by the names of the tables."""
    runs = [run for run in runs if not run.setting]
    hidden = (*by, *following([run.record.recipe for run in runs], by))
    return {run.corpus: settings_of(run.record.recipe, hidden) for run in runs}


def main_by_model(runs: Iterable[Run], by: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return model → the keys that follow from it, where models are shown side by side."""
    recipes = [run.record.recipe for run in runs if not run.setting]
    keys = following(recipes, by)
    return {
        recipe.model: {key: recipe.to_dict()[key] for key in keys} for recipe in recipes if keys
    }


def cells(runs: Iterable[Run]) -> dict[tuple[Any, ...], list[Run]]:
    """Group runs that differ in the seed alone."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        found.setdefault((run.method, *run.pair[:-1]), []).append(run)
    return found


def method_order(labels: Iterable[str]) -> list[str]:
    """Sort methods: those of :data:`_FIRST`, then the others by name."""
    places = {name: place for place, name in enumerate(_FIRST)}
    return sorted(labels, key=lambda label: (places.get(label.split(" ")[0], len(places)), label))


def left_out(records: Iterable[Record]) -> list[str]:
    """Describe the records that :func:`arrange` leaves out although they have other numbers."""
    sentences = []
    for kept, *others in _trainings(records).values():
        for other in others:
            if more := sorted(_places(other.results) - _places(kept.results)):
                sentences.append(
                    f"{other.recipe.key} is left out: {kept.recipe.key} is the same training, and "
                    f"lacks {', '.join(more)}."
                )
    return sentences


def _places(results: Mapping[str, Any]) -> set[str]:
    """Return the calibrators and the other data of a record, as a sentence names them."""
    shifts = (parts.get("shift", {}) for parts in results.values())
    return {*results, *(name for shift in shifts for name in shift)}


def _trainings(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records that differ in their measures alone, the most complete of each group first."""
    plain: dict[str, Any] = {
        f.name: f.default for f in dataclasses.fields(Recipe) if f.name in BESIDES
    }

    def place(record: Record) -> tuple[int, str]:
        measured = len(record.recipe.shift) + len(record.recipe.measure)
        return -measured, record.recipe.key

    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=place):
        found.setdefault(dataclasses.replace(record.recipe, **plain).key, []).append(record)
    return found


def value_order(value: Any) -> tuple[int, float, str]:
    """Return a sort key: missing values, then numbers by size, then words."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (1, float(value), "")
    return (2, 0.0, value_label(value))


def _run(record: Record, corpus: str, by: Sequence[str], main: Mapping[str, Any]) -> Run:
    recipe, settings = record.recipe, record.recipe.to_dict()
    options = [key for key in by if key not in settings]
    method, shown = _WRAPPED, _WRAPPED
    if not recipe.wrapped:
        method = method_label(recipe.method, recipe.method_options)
        shown = method_label(recipe.method, recipe.method_options, options)
    return Run(
        record=record,
        key=recipe.key,
        corpus=corpus,
        setting=settings_label({k: settings[k] for k, v in main.items() if settings[k] != v}),
        method=method,
        shown=shown,
        by=tuple(_requested(recipe, key) for key in by),
        extra=tuple((key, value_label(settings[key])) for key in by if key in settings),
        width=recipe.head_width,
        depth=recipe.head_depth,
        seed=recipe.seed,
    )


def _requested(recipe: Recipe, key: str) -> Any:
    """Return the value of a recipe key or method option; None if the method lacks the option."""
    settings = recipe.to_dict()
    return settings[key] if key in settings else recipe.method_options.get(key)


def _check_keys(by: Sequence[str], recipes: Sequence[Recipe]) -> None:
    settings = recipes[0].to_dict()
    options = {key for recipe in recipes for key in recipe.method_options}
    for key, count in Counter(by).items():
        if key in (*AXES, *BESIDES):
            raise InputError(f"--by {key}: the tables have a place for {key} already.")
        if key not in settings and key not in options:
            raise unknown_name(
                "key to show results by", key, {*settings, *options} - {*AXES, *BESIDES}
            )
        if count > 1:
            raise InputError(f"--by names {key} {count} times.")
