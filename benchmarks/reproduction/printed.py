"""The numbers that the papers print, to compare with what was measured.

``table_1.json``: G. Jouet, C. Duhart, J. Staiano, F. Rousseaux, C. de Runz, *A Novel Gradient
Accumulation Method for Calibration of Named Entity Recognition Models*, IJCNN 2022, Table I
(hal-03792800), all of its 5 methods × 4 widths × 5 corpora.

``cifar10.json``, ``tiny-imagenet.json``: the meta-regularisation slides and the MbLS poster,
percentages as shares. The adaptive ECE of margin 10 on CIFAR-10 is illegible on our copy of the
poster, and the last digit of FLSD's ECE on Tiny-ImageNet. The slides print the error and the poster
the accuracy; each is 1 minus the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from calibrant.experiments.recipe import Recipe

__all__ = ["PRINTED", "citation", "image_source", "image_value", "paper_methods", "paper_value"]

# Metric → its place in the triples of Table I.
PRINTED = {"entity_f1": 0, "ece": 1, "apcr": 2}
_CITATION = "Jouet et al., IJCNN 2022, Table I: BERT-base, batch 3, one run per cell"
_IMAGES = ("cifar10", "tiny-imagenet")
_COMPLEMENT = {"error_rate": "accuracy", "accuracy": "error_rate"}


def paper_value(corpus: str, method: str, width: int, metric: str) -> float | None:
    """Return a number of Table I, or None where the table has none.

    >>> paper_value("gum", "head_noise", 128, "apcr")
    1.89
    >>> paper_value("gum", "focal", 128, "apcr")
    """
    triple = _read("table_1")["values"].get(corpus, {}).get(method, {}).get(str(width))
    return None if triple is None or metric not in PRINTED else float(triple[PRINTED[metric]])


def paper_methods() -> list[str]:
    """Return the methods of Table I by our names, in its order."""
    return list(_read("table_1")["methods"])


def image_value(recipe: Recipe, metric: str, map_: str = "identity") -> float | None:
    """Return the printed number for a run of the same network and method, or None without one.

    >>> recipe = Recipe.from_dict({"task": "image", "data": "cifar10", "model": "resnet18"})
    >>> image_value(recipe, "ece"), image_value(recipe, "ece", "temperature")
    (0.04056, 0.03083)
    >>> image_value(recipe, "error_rate"), image_value(recipe, "accuracy")
    (0.04812, 0.95188)
    >>> image_value(recipe, "brier")
    """
    found = _printed_value(recipe, metric, map_)
    if found is None and metric in _COMPLEMENT:
        complement = _printed_value(recipe, _COMPLEMENT[metric], map_)
        return None if complement is None else round(1 - complement, 9)
    return found


def image_source(recipe: Recipe) -> str | None:
    """Return the citation of the printed numbers for such a run, or None without any."""
    table = _table_of(recipe)
    return None if table is None else str(table["source"])


def citation(sources: Iterable[str]) -> str:
    """Name the sources; Table I where there are none.

    >>> citation([])
    'Jouet et al., IJCNN 2022, Table I: BERT-base, batch 3, one run per cell'
    """
    return "; ".join(dict.fromkeys(sources)) or _CITATION


def _printed_value(recipe: Recipe, metric: str, map_: str) -> float | None:
    table = _table_of(recipe)
    if table is None or metric not in table["columns"]:
        return None
    place = table["columns"].index(metric)
    values = [row["values"][place] for row in table["rows"] if _is_row(row, recipe, map_)]
    return values[0] if values else None


def _is_row(row: dict[str, Any], recipe: Recipe, map_: str) -> bool:
    same = (row["method"], row.get("map", "identity")) == (recipe.method, map_)
    options = row.get("options", {})
    return same and all(recipe.method_options.get(k) == v for k, v in options.items())


def _table_of(recipe: Recipe) -> dict[str, Any] | None:
    data = Path(recipe.data).stem
    tables = _read(data).values() if data in _IMAGES else ()
    return next((table for table in tables if table["model"] == recipe.model), None)


@cache
def _read(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / f"{name}.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
