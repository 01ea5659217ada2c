"""The splits of a data set: their names, their files, and the one that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrant.errors import InputError, unknown_name
from calibrant.inputs import shortened

__all__ = [
    "NAMES",
    "carve",
    "complete",
    "for_wrapping",
    "loosely_named_files",
    "only_one",
    "pairs_of",
    "part_of",
    "split_files",
    "split_folders",
    "split_of",
]

T = TypeVar("T")

# Split → its common names. Out-of-domain data is optional.
NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "validation", "valid", "val", "devel", "testa"),
    "test": ("test", "testing", "eval", "testb"),
    "ood": ("ood", "oos-test"),
}
_UNSEEN = {"dev": "validation", "test": "test"}  # By a model that is trained already.
CARVED = 0.1  # Share of the training split that replaces a missing split, or is held out.


def split_of(name: str) -> str | None:
    """Return the split of a file, a folder or a part of a data set, by its name.

    >>> split_of("validation"), split_of("notes")
    ('dev', None)
    """
    return next((split for split, names in NAMES.items() if name.lower() in names), None)


def part_of(parts: Mapping[str, T], split: str) -> T:
    """Return the part of a name.

    >>> part_of({"train": [1], "test": [2]}, "tset")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Unknown split 'tset'. Did you mean 'test'?
    """
    if split not in parts:
        raise unknown_name("split", split, parts)
    return parts[split]


def split_files(folder: Path, suffixes: Iterable[str]) -> dict[str, Path]:
    """Find the file of each split in ``folder``, by suffix; two for one are an error."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        suffix = next((s for s in suffixes if path.name.lower().endswith(s)), None)
        split = None if suffix is None else split_of(path.name[: -len(suffix)])
        if split is not None and path.is_file():
            only_one(found, split, path.name, f"{folder} has two files for one split")
            found[split] = path
    return found


def loosely_named_files(folder: Path, suffixes: Iterable[str]) -> dict[str, Path]:
    """Find files with a split as a part of the name: en_train.conll, eng.testa."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        suffix = next((s for s in suffixes if name.endswith(s)), "")
        parts = re.split(r"[\W_]+", name.removesuffix(suffix))
        splits = {split for part in parts if (split := split_of(part)) is not None}
        if path.is_file() and len(splits) == 1 and (suffix or split_of(parts[-1])):
            (split,) = splits
            only_one(found, split, path.name, f"{folder} has two files for one split")
            found[split] = path
    return found


def split_folders(folder: Path) -> dict[str, Path]:
    """Find the folder of each split in ``folder``; two for one are an error."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        split = split_of(path.name)
        if split is not None and path.is_dir():
            only_one(found, split, path.name, f"{folder} has two folders for one split")
            found[split] = path
    return found


def only_one(found: Mapping[str, Any], split: str, name: str, trouble: str) -> None:
    """Raise an error if a split exists already: neither 'val' nor 'dev' is dropped silently."""
    if split in found:
        first = getattr(found[split], "name", found[split])
        raise InputError(f"{trouble}: {first} and {name}.")


def complete(
    parts: dict[str, Sequence[T]], where: str, seed: int, *, test: bool = False, hint: str = ""
) -> tuple[dict[str, Sequence[T]], tuple[str, ...]]:
    """Complete the splits: a missing validation split is carved from training, with a note.

    With ``test``, a missing test split is carved as well; else it is an error, like an empty one,
    and ``hint`` says what to do.
    Empty out-of-domain data is left out.
    """
    parts, notes = {s: part for s, part in parts.items() if part or s != "ood"}, []
    wanted = {"test": "test", "dev": "validation"} if test else {"dev": "validation"}
    missing = next((s for s in ("train", "test") if s not in parts and s not in wanted), None)
    if missing is not None:
        found = ", ".join(parts) or "none"
        raise InputError(f"{where} has no {missing} split; found: {found}{hint}.")
    empty = next((s for s, part in parts.items() if s not in ("train", "ood") and not part), None)
    if empty is not None:
        raise InputError(f"{where}: the {empty} split is empty; leave it out, or fill it.")
    for split, name in wanted.items():
        if split not in parts:
            parts["train"], parts[split] = carve(parts["train"], seed, where)
            size = len(parts[split])
            notes.append(f"No {name} split: {size:,} training examples taken (seed {seed}).")
    return parts, tuple(notes)


def for_wrapping(parts: dict[str, Sequence[T]], where: str) -> dict[str, Sequence[T]]:
    """Return the splits for a model that is trained already: validation, test, and the rest.

    Nothing is carved from the training split, which the model may have seen. It may be missing.
    """
    lacking = [name for split, name in _UNSEEN.items() if not parts.get(split)]
    if lacking:
        raise InputError(
            f"{where} has no {' and no '.join(lacking)} split; found: {', '.join(parts) or 'none'}."
            " A model that is trained already needs both: on its training data it is overconfident."
        )
    return {**parts, "train": parts.get("train") or parts["dev"]}


def pairs_of(examples: Any, split: str) -> Iterator[tuple[tuple[Any, Any], str]]:
    """Yield each pair of an input and its label that was given in Python, and where it stands.

    >>> list(pairs_of([("It barks.", "dog")], "test"))
    [(('It barks.', 'dog'), 'test, example 1')]
    """
    for number, pair in enumerate(examples, start=1):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(
                f"{split}, example {number}: expected a pair of an input and its label, got "
                f"{shortened(repr(pair))}."
            )
        yield (pair[0], pair[1]), f"{split}, example {number}"


def carve(
    train: Sequence[Any], seed: int | Sequence[int], where: str
) -> tuple[list[Any], list[Any]]:
    """Divide the training split into the part to keep and a tenth to take; both in order.

    >>> carve("abcdefghij", seed=0, where="letters")
    (['a', 'b', 'c', 'd', 'f', 'g', 'h', 'i', 'j'], ['e'])
    """
    if len(train) < 2:
        raise InputError(f"{where}: {len(train)} training examples are too few to split.")
    order = np.random.default_rng(seed).permutation(len(train))
    size = max(1, round(CARVED * len(train)))
    held = set(order[:size].tolist())
    kept = [example for i, example in enumerate(train) if i not in held]
    return kept, [example for i, example in enumerate(train) if i in held]
