"""Read the small files of a run's folder; errors say in one line what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import read_json

__all__ = [
    "check_classes",
    "check_labels",
    "find_file",
    "read_labels",
    "read_max_length",
    "write_labels",
]

_LENGTHS = range(8, 513)  # Word pieces.


def read_labels(folder: Path) -> tuple[str, ...]:
    """Read the label set of a run."""
    path = folder / "labels.json"
    labels = read_json(path, "not a list of label names")
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise InputError(f"{path}: not a list of label names.")
    if not labels or len(set(labels)) < len(labels):
        raise InputError(f"{path}: not a list of label names, each of them once.")
    return tuple(labels)


def write_labels(folder: Path, labels: tuple[str, ...]) -> None:
    """Write the label set of a run."""
    text = json.dumps(list(labels), indent=1, ensure_ascii=False)
    (folder / "labels.json").write_text(text + "\n", encoding="utf-8")


def check_labels(folder: Path, labels: tuple[str, ...], model: Any) -> None:
    """Raise an error where a model has other classes."""
    own = tuple(str(name) for _, name in sorted(model.config.id2label.items()))
    if own != labels:
        raise InputError(f"{folder} is damaged: its model and labels.json differ in their classes.")


def check_classes(folder: Path, labels: tuple[str, ...], what: str, count: int) -> None:
    """Check that a part of a run has its label set: a replaced one gives other labels."""
    if count != len(labels):
        raise InputError(f"{folder} is damaged: {what} and labels.json differ in their classes.")


def read_max_length(folder: Path, recipe: Mapping[str, Any]) -> int:
    """Read how many pieces the model of a run takes at once."""
    length = recipe.get("max_length")
    if isinstance(length, bool) or not isinstance(length, int) or length not in _LENGTHS:
        raise InputError(
            f"{folder / 'recipe.json'}: not a recipe of a run, whose max_length is a whole number "
            f"from {_LENGTHS[0]} to {_LENGTHS[-1]}."
        )
    return length


def find_file(folder: Path, *names: str) -> Path:
    """Return the first of these files that a run has."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(f"{folder} is damaged: it has no {names[0]}.")
