"""Folders of tables whose own log says which files count: Delta, Iceberg and Hudi.

Such a folder keeps files of deleted and replaced rows. Read as plain parquet, these would count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import PurePath

from calibrant.errors import InputError

__all__ = ["Listing", "check_plain", "log_of", "names_in"]

# What shows that a folder is a table: a folder in it, and how the name of a file in there ends.
_LOGS = {
    "Delta": ("_delta_log", ""),
    "Iceberg": ("metadata", ".metadata.json"),
    "Hudi": (".hoodie", ""),
}
# Returns the names in a folder; none where there is no such folder.
Listing = Callable[[str], Iterable[str]]


def names_in(folder: str) -> list[str]:
    """Return the names in a local folder; none where it is not there, or not to be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []


def log_of(folder: str, names: Listing = names_in) -> str | None:
    """Return which kind of table a folder is; None if it is none.

    >>> log_of("t", lambda folder: ["v1.metadata.json"] if folder == "t/metadata" else [])
    'Iceberg'
    """
    for kind, (log, end) in _LOGS.items():
        if any(name.endswith(end) for name in names(f"{folder}/{log}")):
            return kind
    return None


def check_plain(files: Iterable[PurePath], names: Listing = names_in) -> None:
    """Refuse parquet files that belong to a table, which may have deleted their rows."""
    seen: set[PurePath] = set()
    for file in files:
        for folder in file.parents:
            if folder in seen:
                break
            seen.add(folder)
            # A partition, of which there may be thousands, or what is above all names.
            if "=" in folder.name or not folder.name:
                continue
            if (kind := log_of(str(folder), names)) is not None:
                raise _of_table(file, folder, kind)


def _of_table(file: PurePath, folder: PurePath, kind: str) -> InputError:
    remedy = f"name the table, {folder}, with --engine ray or --engine spark"
    if kind == "Hudi":
        remedy = "write its live rows to parquet files elsewhere"
    return InputError(
        f"{file} belongs to a table of {kind}, whose folder also keeps deleted rows: {remedy}."
    )
