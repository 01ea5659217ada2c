"""The small files of a run's folder, each with a line that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import read_json

__all__ = ["check_labels", "find_predictions", "read_labels", "read_max_length"]

_LENGTHS = range(8, 513)  # Word pieces.


def read_labels(folder: Path) -> tuple[str, ...]:
    """The label set of a run."""
    path = folder / "labels.json"
    labels = read_json(path, "no list of label names")
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise InputError(f"{path} is damaged: expected a list of label names.")
    if not labels or len(set(labels)) < len(labels):
        raise InputError(f"{path} is damaged: expected label names, each of them once.")
    return tuple(labels)


def check_labels(folder: Path, labels: tuple[str, ...], model: Any) -> None:
    """Raise an error where a model has other classes."""
    own = tuple(str(name) for _, name in sorted(model.config.id2label.items()))
    if own != labels:
        raise InputError(
            f"{folder / 'labels.json'} does not fit the model beside it, whose {len(own)} classes "
            f"are {', '.join(own[:8])}{', …' if len(own) > 8 else ''}."
        )


def read_max_length(folder: Path, recipe: dict[str, Any]) -> int:
    """How many pieces the model of a run takes at once."""
    length = recipe.get("max_length")
    if isinstance(length, bool) or not isinstance(length, int) or length not in _LENGTHS:
        raise InputError(
            f"{folder / 'recipe.json'} is damaged: max_length is a whole number from "
            f"{_LENGTHS[0]} to {_LENGTHS[-1]}, got {length!r}."
        )
    return length


def find_predictions(folder: Path, name: str) -> Path:
    """``NAME.parquet``, or npz where a run was written without pyarrow."""
    for suffix in ("parquet", "npz"):
        if (folder / f"{name}.{suffix}").exists():
            return folder / f"{name}.{suffix}"
    raise InputError(
        f"{folder} has no {name}.parquet, the predictions that its confidences are learned from: "
        "restore it, or train again into a new folder."
    )
