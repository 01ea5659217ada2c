"""Examples with one label each, in splits: the label set, class folders, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.reading.splits import split_folders

__all__ = [
    "class_folders",
    "has_splits",
    "known_classes",
    "label_names",
    "lost_classes",
    "number_labels",
    "some_examples",
    "training_labels",
]

T = TypeVar("T")
_SHOWN = 5  # Classes in a note.


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the different labels, in alphabetical order; whole numbers by their value.

    >>> label_names(["b", "a", "b"]), label_names(["10", "9"])
    (('a', 'b'), ('9', '10'))
    """
    found = sorted(set(labels))  # First by the alphabet: '1' and '01' are two labels of one number.
    numbers = all(label.isascii() and label.isdigit() for label in found)
    # By length, then by the alphabet, is by value, for any number of digits.
    return tuple(sorted(found, key=_by_value) if numbers else found)


def training_labels(train: Sequence[tuple[Any, str]], where: str, what: str) -> tuple[str, ...]:
    """Return the labels of training examples, of which there are at least two.

    >>> training_labels([("It barks.", "dog"), ("It purrs.", "cat")], "pets", "texts")
    ('cat', 'dog')
    """
    if not train:
        raise InputError(f"{where} has no training {what}.")
    labels = label_names(label for _, label in train)
    if len(labels) < 2:
        raise InputError(f"{where} has one class, '{labels[0]}': there is nothing to classify.")
    return labels


def lost_classes(
    before: Sequence[tuple[Any, str]], after: Sequence[tuple[Any, str]]
) -> tuple[str, ...]:
    """Note the classes whose training examples were all taken for missing splits.

    >>> lost_classes([("It barks.", "dog"), ("It purrs.", "cat")], [("It barks.", "dog")])
    ("The splits that were taken left no training example of 'cat': no model can learn it.",)
    """
    lost = label_names({label for _, label in before} - {label for _, label in after})
    if not lost:
        return ()
    shown = ", ".join(f"'{label}'" for label in lost[:_SHOWN])
    more, it = (", …" if len(lost) > _SHOWN else "", "it" if len(lost) == 1 else "them")
    return (
        f"The splits that were taken left no training example of {shown}{more}: no model can "
        f"learn {it}.",
    )


def _by_value(digits: str) -> tuple[int, str]:
    plain = digits.lstrip("0")
    return len(plain), plain


def number_labels(
    parts: Mapping[str, Sequence[str]], names: Sequence[str], where: str
) -> dict[str, list[int]]:
    """Number the labels of each split. Out-of-domain examples may have no class: −100.

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
    """Find the files of each class, named by their folder: ``[split/]class/[…/]file``."""
    splits = split_folders(folder) or {"train": folder}
    parts: dict[str, list[tuple[Path, str]]] = {}
    for split, path in splits.items():
        classes = {label: _files(label, suffixes) for label in _folders(path)}
        parts[split] = [(file, label.name) for label, files in classes.items() for file in files]
        kinds = ", ".join(suffixes)
        if not parts[split]:
            raise InputError(
                f"{folder} has no files for {split}: expected a folder for each class with {kinds}."
            )
        empty = next((label for label, files in classes.items() if not files), None)
        if empty is not None and split == "train":
            raise InputError(
                f"{empty} holds no file ({kinds}), so nothing can be learned about this class: "
                "fill the folder, or remove it."
            )
    return parts


def has_splits(folder: Path) -> bool:
    """Return whether some of the folders in a folder are splits."""
    return bool(split_folders(folder))


def _files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Find files with one of the suffixes, also in folders below; none that are hidden."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(part[0] == "." for part in path.relative_to(folder).parts)
    ]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


def some_examples(examples: list[T], data: str) -> list[T]:
    """Return examples to test on; none is an error."""
    if not examples:
        raise InputError(f"{data} holds no labelled example.")
    return examples


def known_classes(labels: Sequence[str], known: Sequence[str], data: str) -> list[int]:
    """Return the classes of labels that a run knows; one that it does not know is an error."""
    numbers = {label: number for number, label in enumerate(known)}
    unknown = next((label for label in labels if label not in numbers), None)
    if unknown is not None:
        raise InputError(
            f"{data}, example {labels.index(unknown) + 1}: the run knows no label '{unknown}'; it "
            f"has {', '.join(known[:8])}{', …' if len(known) > 8 else ''}."
        )
    return [numbers[label] for label in labels]
