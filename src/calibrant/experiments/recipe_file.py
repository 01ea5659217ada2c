"""Read recipes from TOML files: defaults, and grids that are expanded to every combination."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.experiments.recipe import Recipe, with_new_keys
from calibrant.extras import require
from calibrant.inputs import check_file, check_nesting
from calibrant.old_names import warn_renamed

__all__ = ["expand_grid", "read_recipes", "read_title"]

_MOST_RECIPES = 100_000  # In one grid.
# Texts and comments of TOML, in which brackets mean nothing.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')


def read_title(path: str | Path) -> str:
    """Return the title of a TOML file of recipes, or an empty text."""
    return str(_content(Path(path)).get("title", ""))


def read_recipes(path: str | Path, over: Mapping[str, Any] | None = None) -> list[Recipe]:
    """Read the runs of a TOML file: ``[defaults]`` and ``[[grid]]`` tables of lists.

    ``over`` are settings that replace those of the file in every run.
    """
    path = Path(path)
    content = _content(path)
    defaults, grids = content.get("defaults", {}), content.get("grid", [{}])
    tables = [defaults, *grids] if isinstance(grids, list) else [grids, None]
    if not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: expected one table [defaults], and each grid as [[grid]].")
    try:
        return expand_grid(defaults, grids, over)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _content(path: Path) -> dict[str, Any]:
    check_file(path)
    try:
        content = _toml(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}.") from None
    for key in content:
        if key not in ("defaults", "grid", "title"):
            raise _unknown_key(path, key)
    return dict(content)


def _unknown_key(path: Path, key: str) -> InputError:
    if key in {field.name for field in fields(Recipe)}:
        return InputError(f"{path}: '{key}' is a setting; write it below [defaults] or [[grid]].")
    return unknown_name(f"table of {path}:", key, ("defaults", "grid", "title"))


def expand_grid(
    defaults: Mapping[str, Any],
    grids: list[Mapping[str, Any]],
    over: Mapping[str, Any] | None = None,
) -> list[Recipe]:
    """Return every combination of the lists of each grid, over the defaults, each run once.

    A list of tables is allowed where one key decides others: ``variant = [{method = "focal",
    method_options = {gamma = 3}}, …]``. The names of ``shift`` and of ``measure`` are one setting,
    not several.

    >>> [r.key[:20] for r in expand_grid({"data": "gum"}, [{"seed": [0, 1], "epochs": 2}])]
    ['gum-cross_entropy-12', 'gum-cross_entropy-12']
    """
    recipes: dict[str, Recipe] = {}
    defaults, over = _with_new_keys(defaults), _with_new_keys(over or {})
    for grid in map(_with_new_keys, grids):
        axes = [
            [_setting(key, value) for value in _choices(key, values)]
            for key, values in grid.items()
        ]
        if math.prod(map(len, axes)) > _MOST_RECIPES:
            raise InputError(
                f"A grid has {math.prod(map(len, axes)):,} combinations; at most "
                f"{_MOST_RECIPES:,} are allowed."
            )
        for combination in itertools.product(*axes):
            merged = dict(defaults)
            for setting in combination:
                merged.update(setting)
            recipe = Recipe.from_dict({**merged, **over})
            recipes.setdefault(recipe.key, recipe)
    return list(recipes.values())


def _choices(key: str, values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    if key in ("shift", "measure", "copies") and not any(
        isinstance(value, list) for value in values
    ):
        return [values]
    if not values:
        raise InputError(f"{key} of a grid has no value: leave it out, or give it one.")
    return values


def _setting(key: str, value: Any) -> dict[str, Any]:
    if key != "variant":
        return {key: value}
    if not isinstance(value, Mapping):
        raise InputError(f"variant of a grid is a list of tables of settings, got {value!r}.")
    return _with_new_keys(value)


def _with_new_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with today's keys, with a warning for each old one."""
    for key in table:
        (new,) = with_new_keys({key: None})
        if new != key:
            warn_renamed(f"The recipe key '{key}'", f"'{new}'")
    return with_new_keys(table)


def _toml(path: Path) -> dict[str, Any]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    tomllib: Any = require(name, "transformers", "Reading a recipe")
    text = path.read_text(encoding="utf-8")
    check_nesting(_QUOTED.sub("", text))  # A reader that recurses would come to its limit.
    content: dict[str, Any] = tomllib.loads(text)
    return content
