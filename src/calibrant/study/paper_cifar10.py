"""What the meta-regularisation slides and the MbLS poster print for CIFAR-10.

``paper_cifar10.json`` holds both tables, per cent as shares; an adaptive ECE that cannot be read
off our copy of the poster is missing. The slides print the error, the poster the accuracy: either
is 1 minus the other.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from calibrant.experiments.recipe import Recipe

__all__ = ["cifar10_source", "cifar10_value"]

_REST = {"error": "accuracy", "accuracy": "error"}  # The share that a share leaves


def cifar10_value(recipe: Recipe, metric: str, map_: str = "identity") -> float | None:
    """A printed number for a run of the same network and method; None where there is none.

    >>> recipe = Recipe.from_dict({"task": "image", "data": "cifar10", "model": "resnet18"})
    >>> cifar10_value(recipe, "ece"), cifar10_value(recipe, "ece", "temperature")
    (0.04056, 0.03083)
    >>> cifar10_value(recipe, "error"), cifar10_value(recipe, "accuracy")
    (0.04812, 0.95188)
    >>> cifar10_value(recipe, "brier")
    """
    found = _printed(recipe, metric, map_)
    if found is None and metric in _REST:
        rest = _printed(recipe, _REST[metric], map_)
        return None if rest is None else round(1 - rest, 9)
    return found


def cifar10_source(recipe: Recipe) -> str | None:
    """Where the numbers of such a run stand."""
    table = _table(recipe)
    return None if table is None else str(table["source"])


def _printed(recipe: Recipe, metric: str, map_: str) -> float | None:
    table = _table(recipe)
    if table is None or metric not in table["columns"]:
        return None
    place = table["columns"].index(metric)
    values = [row["values"][place] for row in table["rows"] if _is_row(row, recipe, map_)]
    return values[0] if values else None


def _is_row(row: dict[str, Any], recipe: Recipe, map_: str) -> bool:
    same = (row["method"], row.get("map", "identity")) == (recipe.method, map_)
    options = row.get("options", {})
    return same and all(recipe.method_options.get(k) == v for k, v in options.items())


def _table(recipe: Recipe) -> dict[str, Any] | None:
    if Path(recipe.data).stem != "cifar10":
        return None
    return next((t for t in _tables().values() if t["model"] == recipe.model), None)


@cache
def _tables() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("paper_cifar10.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
