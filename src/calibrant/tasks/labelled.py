"""Examples with one label each, in splits: the label set, class folders, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.splits import split_of

__all__ = ["class_folders", "has_splits", "label_names", "number_labels"]


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels, in the order of the alphabet; whole numbers by their value.

    >>> label_names(["b", "a", "b"]), label_names(["10", "9"])
    (('a', 'b'), ('9', '10'))
    """
    found = set(labels)
    numbers = all(label.isascii() and label.isdigit() for label in found)
    return tuple(sorted(found, key=int if numbers else None))


def number_labels(
    parts: Mapping[str, Sequence[str]], names: Sequence[str], where: str
) -> dict[str, list[int]]:
    """The class of each label in each split. Out-of-domain examples may be of no class: −100.

    >>> number_labels({"train": ["a", "b"], "ood": ["x"]}, ("a", "b"), "pets")
    {'train': [0, 1], 'ood': [-100]}
    """
    numbers = {name: number for number, name in enumerate(names)}
    for split, labels in parts.items():
        unknown = next((i for i, label in enumerate(labels) if label not in numbers), None)
        if unknown is not None and split != "ood":
            raise InputError(
                f"{where}, {split} split, example {unknown + 1}: label '{labels[unknown]}' does "
                f"not occur in the training split, which has {len(names)} labels."
            )
    return {
        split: [numbers.get(label, IGNORED) for label in labels] for split, labels in parts.items()
    }


def class_folders(folder: Path, suffixes: Sequence[str]) -> dict[str, list[tuple[Path, str]]]:
    """The files of each class, whose name is their folder's: ``[split/]class/file``."""
    splits = {split: path for path in _folders(folder) if (split := split_of(path.name))}
    parts: dict[str, list[tuple[Path, str]]] = {
        split: [
            (file, label.name)
            for label in _folders(path)
            for file in sorted(label.iterdir())
            if file.suffix.lower() in suffixes and file.name[0] != "."
        ]
        for split, path in (splits or {"train": folder}).items()
    }
    empty = next((split for split, files in parts.items() if not files), None)
    if empty is not None:
        kinds: Any = ", ".join(suffixes)
        raise InputError(
            f"{folder} has no files for {empty}: expected a folder for each class with {kinds}."
        )
    return parts


def has_splits(folder: Path) -> bool:
    """Whether some of the folders in a folder are splits."""
    return any(split_of(path.name) for path in _folders(folder))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
