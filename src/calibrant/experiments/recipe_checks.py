"""Check the settings of a recipe: each one, and which ones go together."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from calibrant.calibrators import calibrator_class
from calibrant.corruptions import known_corruption
from calibrant.errors import InputError, unknown_name
from calibrant.inputs import has_half_a_character, shortened
from calibrant.tasks import all_tasks, task_of

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["AUTO", "WRAPPED", "check_recipe", "checked_names"]

WRAPPED = "wrapped"  # The engine that trains nothing: a fine-tuned model as it is.
AUTO = "auto"  # The calibrator of a run is chosen on its validation split.
_TOO_MUCH = 2**63
_KINDS = {
    str: (str, "a text"),
    float: ((int, float), "a number"),
    bool: (bool, "true or false"),
    type(MISSING): (Mapping, "a table, such as {gamma = 3}"),  # Defaults from a factory.
}


def check_recipe(recipe: Recipe) -> None:
    """Raise an error that says which setting is wrong, and what it may be."""
    _check_kinds(recipe)
    if not 0 < recipe.learning_rate < math.inf:
        raise InputError(f"learning_rate must be greater than 0, got {recipe.learning_rate!r}.")
    if not 0 <= recipe.warm_up < 1:
        raise InputError(f"warm_up must be a share of all steps in [0, 1), got {recipe.warm_up!r}.")
    if recipe.batch % recipe.accumulate:
        raise InputError(
            f"A batch of {recipe.batch} cannot be run in {recipe.accumulate} equal parts."
        )
    _check_task(recipe)
    if recipe.files and not (recipe.train_file and recipe.test_file):
        raise InputError(
            "Files of splits: name train_file and test_file, and dev_file if there is one."
        )
    for name in {*recipe.measure, recipe.calibrator} - {AUTO}:
        calibrator_class(name)  # Raises an error for an unknown name.
    for name in ("identity", "temperature"):  # Every run shows these.
        if name not in recipe.measure:
            raise InputError(f"measure names identity, temperature and any more: add '{name}'.")
    _check_optimizer(recipe)
    _check_copies(recipe)


def checked_names(recipe: Recipe, key: str) -> tuple[str, ...]:
    """Return the names of a setting that is a list, as it comes from a file."""
    names: Any = getattr(recipe, key)
    listed = isinstance(names, (list, tuple))
    if not listed or not all(isinstance(name, str) and name for name in names):
        example = next(f.metadata["example"] for f in fields(recipe) if f.name == key)
        raise InputError(f"{key} is a list of names, such as {example}, got {names!r}.")
    if len(set(names)) < len(names):
        raise InputError(f"{key} names something twice: {', '.join(names)}.")
    return tuple(names)


def _check_kinds(recipe: Recipe) -> None:
    """Check the type and the limits of each setting: a file may hold anything."""
    for setting in fields(recipe):
        name, value, about = setting.name, getattr(recipe, setting.name), setting.metadata
        if "choices" in about:
            if value not in tuple(about["choices"]):
                raise unknown_name(name, str(value), about["choices"])
        elif "least" in about:
            _check_whole(name, value, about["least"], about.get("most"))
        elif not isinstance(value, tuple):
            _check_kind(name, value, *_KINDS[type(setting.default)])
    _check_options(recipe.method_options)
    _check_wrapped(recipe)
    if has_half_a_character(recipe.to_dict()):
        raise InputError("A name in the recipe contains half of a character.")


def _check_whole(name: str, value: Any, least: int, most: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _TOO_MUCH:
        raise InputError(
            f"{name} must be a whole number of at least {least}, got {shortened(repr(value))}."
        )
    if most is not None and value > most:
        raise InputError(f"{name} is at most {most:,}, got {value:,}.")


def _check_kind(name: str, value: Any, kind: Any, words: str) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} is {words}, got {shortened(repr(value))}.")
    if isinstance(value, int) and abs(value) >= _TOO_MUCH:
        raise InputError(f"{name} is {words} of usual size, got {shortened(str(value))}.")


def _check_options(options: Any) -> None:
    """Refuse options that JSON cannot hold, such as the dates of TOML: a record keeps them."""
    try:
        json.dumps(options)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"method_options cannot be kept in a record: {error}.") from None


def _check_wrapped(recipe: Recipe) -> None:
    names: Mapping[Any, Any] = recipe.labels
    if not all(isinstance(name, str) and name for pair in names.items() for name in pair):
        raise InputError(f"labels has names and names, such as {{PERSON = 'PER'}}, got {names!r}.")
    if not recipe.wrapped and (names or recipe.scheme != type(recipe).scheme):
        raise InputError("labels and scheme are settings of engine 'wrapped' ('calibrant wrap').")


def _check_task(recipe: Recipe) -> None:
    task = task_of(recipe.task)
    if recipe.engine not in task.engines:
        raise InputError(
            f"Task '{recipe.task}' is trained by engine {' or '.join(task.engines)}, not by "
            f"'{recipe.engine}'."
        )
    defaults = {field.name: field.default for field in fields(recipe)}
    for other, its in all_tasks().items():
        for name in set(its.own_settings) - set(task.own_settings):
            if getattr(recipe, name) != defaults[name]:
                raise InputError(f"{name} is a setting of task '{other}', not '{recipe.task}'.")
        for name in set(its.own_calibrators) - set(task.own_calibrators):
            if name in (*recipe.measure, recipe.calibrator):
                raise InputError(f"{name} is a calibrator of task '{other}', not '{recipe.task}'.")


def _check_copies(recipe: Recipe) -> None:
    """Check that the task can make the copies that the recipe names."""
    task = task_of(recipe.task)
    chosen = recipe.calibrator
    if recipe.copies == ("none",) and chosen != AUTO and calibrator_class(chosen).needs_copies:
        raise InputError(
            f"The calibrator '{chosen}' learns from corrupted copies: leave out copies 'none'."
        )
    for name in recipe.copies:
        if len(recipe.copies) == 1 and name in (AUTO, "none"):
            continue
        if not task.default_copies:
            raise InputError(f"Task '{recipe.task}' makes no corrupted copies: leave copies out.")
        known_corruption(name, task.corruptions, of=f"task '{recipe.task}'")


def _check_optimizer(recipe: Recipe) -> None:
    for name in ("momentum", "clip", "weight_decay"):
        if not 0 <= getattr(recipe, name) < math.inf:
            raise InputError(
                f"{name} must be a number of at least 0, got {getattr(recipe, name)!r}."
            )
    if recipe.momentum >= 1:
        raise InputError(f"momentum must be below 1, got {recipe.momentum!r}.")
    if recipe.optimizer != "sgd" and recipe.momentum != type(recipe).momentum:
        raise InputError(f"momentum is a setting of optimizer 'sgd', not '{recipe.optimizer}'.")
    if recipe.engine == "trainer" and (recipe.optimizer, recipe.decay) != ("adamw", "linear"):
        raise InputError("Engine 'trainer' has AdamW with linear decay: leave both out.")
