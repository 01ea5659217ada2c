"""Data sets of the ``datasets`` library: from the hub by name, or from a folder that it saved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.tasks.reading.hub_connection import asking_the_hub, first_line
from calibrant.tasks.reading.splits import split_of

__all__ = ["check_name", "column", "is_saved", "load_hub", "load_saved", "names_of"]

_PURPOSE = "Reading a data set of the hub"
_NAME = re.compile(r"[\w.-]*\w/[\w.-]*\w(:.+)?")  # owner/name:config


def load_hub(name: str) -> dict[str, Any]:
    """Load the splits of ``owner/name`` or ``owner/name:config`` from the hub or its cache."""
    check_name(name)
    datasets = require("datasets", "data", _PURPOSE)
    name, _, config = name.partition(":")
    try:
        with asking_the_hub(name):
            found = _load(datasets, name, config or None)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Cannot load '{name}' from the hub: {first_line(error)} Without a network, put its "
            "files in a folder and name that, or the data directory that it is in."
        ) from None
    return _by_split(found, name)


def check_name(name: str) -> None:
    """Raise an error unless this is owner/name; does not contact the hub."""
    if Path(name).is_file():
        raise InputError(f"{name} is a file: name the folder of the train, (dev) and test parts.")
    if not _NAME.fullmatch(name):
        raise InputError(f"There is no folder {name}; on the hub, names are owner/name.")


def _load(datasets: Any, name: str, config: str | None) -> Any:
    try:
        return datasets.load_dataset(name, config)
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        # The hub keeps a copy as parquet of what old loading scripts made, a folder per config.
        return datasets.load_dataset(name, data_dir=config, revision="refs/convert/parquet")


def is_saved(folder: Path) -> bool:
    """Return whether the ``datasets`` library can read the folder: saved, or of parquet files.

    >>> is_saved(Path("no such folder"))
    False
    """
    marks = ("dataset_dict.json", "state.json", "*.parquet", "*/*.parquet")
    return any(next(folder.glob(mark), None) for mark in marks)


def load_saved(folder: Path) -> dict[str, Any]:
    """Load the splits of such a folder."""
    datasets = require("datasets", "data", "Reading a folder that the datasets library saved")
    try:
        if any((folder / mark).exists() for mark in ("dataset_dict.json", "state.json")):
            found = datasets.load_from_disk(str(folder))
        else:
            found = datasets.load_dataset(str(folder))
    except Exception as error:  # Whatever pyarrow, json or datasets finds wrong with a file.
        raise InputError(f"Cannot read the data set in {folder}: {first_line(error)}") from None
    return _by_split(found, str(folder))


def column(data: Any, names: Sequence[str], where: str) -> str:
    """Return the first of ``names`` that is a column of the data."""
    found = next((name for name in names if name in data.column_names), None)
    if found is None:
        has = ", ".join(data.column_names)
        raise InputError(f"{where}: expected a column '{names[0]}', found {has}.")
    return found


def names_of(data: Any, column: str) -> tuple[str, ...] | None:
    """Return the class names of a column of numbers, or of lists of them; None for text."""
    feature = data.features[column]
    feature = getattr(feature, "feature", feature)
    names = getattr(feature, "names", None)
    return None if names is None else tuple(names)


def _by_split(found: Any, where: str) -> dict[str, Any]:
    if not hasattr(found, "keys"):  # One table without splits.
        return {"train": found}
    parts: dict[str, Any] = {}
    for name in found:
        split = split_of(str(name))
        if split is not None:
            parts.setdefault(split, found[name])
    if not parts:
        raise InputError(f"{where} has no split called train, validation or test: {list(found)}.")
    return parts
