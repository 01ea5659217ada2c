"""Data sets of the ``datasets`` library: from the hub by name, or from a folder that it saved.

Without a network the hub's cache answers, at once and without log messages.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.tasks.reading.splits import only_one, split_of

__all__ = [
    "asking_the_hub",
    "check_name",
    "class_name",
    "column",
    "first_line",
    "is_saved",
    "load_hub",
    "load_saved",
    "names_of",
    "reachable",
]

_PURPOSE = "Reading a data set of the hub"
_NAME = re.compile(r"[\w.-]*\w/[\w.-]*\w(:.+)?")  # owner/name:config
# For one attempt; the hub's own library tries for half a minute, and more than once.
_SECONDS = 5.0


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
    except Exception as error:  # pyarrow, json and datasets raise many kinds of errors.
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


def class_name(
    names: Sequence[str] | None, number: Any, where: str, *, outside: bool = False
) -> Any:
    """Return the name of a class, or the value itself where a column has no names.

    The datasets library writes −1 for a label that is hidden, as in most test splits of GLUE. An
    example from ``outside`` the domain needs no class.

    >>> class_name(("cat", "dog"), 1, "test, row 1"), class_name(None, "cat", "test, row 1")
    ('dog', 'cat')
    """
    if names is None:
        return number
    if not isinstance(number, int) or not 0 <= number < len(names):
        if outside:
            return str(number)
        raise InputError(
            f"{where}: label {number} is none of the {len(names)} classes, so the row has no "
            "label: leave such rows out, or save the data set without this split."
        )
    return names[number]


def _by_split(found: Any, where: str) -> dict[str, Any]:
    if not hasattr(found, "keys"):  # One table without splits.
        return {"train": found}
    parts: dict[str, Any] = {}
    read: dict[str, str] = {}
    for name in found:
        split = split_of(str(name))
        if split is not None:
            only_one(read, split, str(name), f"{where} has two parts for one split")
            read[split], parts[split] = str(name), found[name]
    if not parts:
        raise InputError(f"{where} has no split called train, validation or test: {list(found)}.")
    return parts


def first_line(error: BaseException) -> str:
    """Return the first line of an error, as a sentence.

    >>> first_line(OSError("No connection\\nCheck your cable."))
    'No connection.'
    """
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".") + "."


@contextlib.contextmanager
def asking_the_hub(name: str) -> Iterator[None]:
    """Allow the hub to be used for ``name``, or only its cache if the hub is out of reach."""
    hub = require("huggingface_hub", "transformers", "Asking the hub")
    if Path(name).is_dir() or reachable(hub.constants.ENDPOINT):
        yield
        return
    places = [hub.constants]
    if "datasets" in sys.modules:
        places.append(sys.modules["datasets"].config)
    before = [place.HF_HUB_OFFLINE for place in places]
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    try:
        for place in places:
            place.HF_HUB_OFFLINE = True
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


@functools.lru_cache(maxsize=8)
def reachable(endpoint: str) -> bool:
    """Return whether the host responds (cached). Behind a proxy only the proxy knows: True."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
