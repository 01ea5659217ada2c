"""The parquet files that paths name: files, folders, globs, addresses, tables with a log."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any

from calibrant.distributed.data_files import DataFile
from calibrant.distributed.lake_tables import (
    METADATA,
    delta_files,
    iceberg_files,
    iceberg_of_catalog,
    newest_metadata,
)
from calibrant.errors import CalibrantError, InputError
from calibrant.extras import require
from calibrant.files.formats import Paths, expand
from calibrant.files.lake_tables import Listing, check_plain, log_of, names_in
from calibrant.inputs import door

__all__ = ["CATALOG", "filesystem", "list_files", "writing"]

CATALOG = "iceberg:"  # Before the name of a table in a catalog.


def filesystem(path: str) -> tuple[Any, str]:
    """Return the file system of an address such as s3://…, and the path in it."""
    fsspec = require("fsspec", "ray", f"Reading {path}")
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0].rstrip('.')}.") from None
    return found


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Turn an error while a remote place is written into one line; what is there stays."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        refused = "no permission to write it" if isinstance(error, PermissionError) else ""
        raise CalibrantError(
            f"{place}: {refused or 'it cannot be written'} ({lines[0].rstrip('.')})."
        ) from error


def list_files(paths: Paths) -> list[DataFile]:
    """Return the files that are read, in the order of their names."""
    several = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not all(several) or not several:
        expand(several)  # Says what is missing; '' would be the folder of the process.
    return [file for path in several for file in _files(fspath(path))]


def _files(path: str) -> list[DataFile]:
    if path.startswith(CATALOG):
        return iceberg_of_catalog(path.removeprefix(CATALOG))
    if path.endswith(METADATA):
        return iceberg_files(path)
    return _remote_files(path) if "://" in path else _local_files(path)


def _local_files(path: str) -> list[DataFile]:
    if (kind := log_of(path)) is not None:
        path = _absolute(path)
        return _of_table(path, kind, names_in, lambda file: Path(file).read_text("utf-8"))
    with door(path, "it cannot be listed"):
        found = sorted(_below(path)) if Path(path).is_dir() else []
    check_plain(Path(file).absolute() for file in found)
    return [DataFile(_checked(_absolute(file))) for file in found or map(str, expand(path))]


def _absolute(path: str) -> str:
    """Return a path that means the same on workers, which run in folders of their own."""
    return str(Path(path).absolute())


def _below(folder: str) -> Iterator[str]:
    """Yield the parquet files of a folder and of those in it, which must all be readable."""

    def refuse(error: OSError) -> None:
        with door(error.filename, "it cannot be listed"):
            raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in names:
            if name.lower().endswith(".parquet") and not _hidden(name):
                yield str(Path(place, name))


def _remote_files(path: str) -> list[DataFile]:
    system, place = filesystem(path)

    def names(folder: str) -> list[str]:
        with suppress(PermissionError):  # Of a folder above: keys are often for one prefix alone.
            there = system.ls(folder, detail=False) if system.isdir(folder) else []
            return [name.rstrip("/").rpartition("/")[2] for name in there]
        return []

    with door(path, "it cannot be listed"):
        if (kind := log_of(place, names)) is not None:
            return _of_table(path, kind, names, lambda file: system.cat_file(file).decode())
        found = _named(system, place)
        check_plain(map(PurePosixPath, found), names)
    if not found:
        raise InputError(f"{path}: there is no parquet file.")
    return [DataFile(_checked(str(system.unstrip_protocol(name)))) for name in found]


def _named(system: Any, place: str) -> list[str]:
    """Return the files of a remote glob or folder, or the file itself."""
    if glob.has_magic(place):
        return sorted(system.glob(place))
    if system.info(place)["type"] != "directory":  # Raises an error if it is not there.
        return [place]
    inside = [name for name in sorted(system.find(place)) if name.lower().endswith(".parquet")]
    return [name for name in inside if not _hidden(name[len(place) :])]


def _of_table(path: str, kind: str, names: Listing, read: Callable[[str], str]) -> list[DataFile]:
    """Return the live files of a table with a log; ``read`` takes a place of ``names``."""
    if kind == "Delta":
        return delta_files(path)
    if kind == "Iceberg":
        folder = f"{filesystem(path)[1] if '://' in path else path}/metadata"
        newest = newest_metadata(names(folder), lambda file: read(f"{folder}/{file}"))
        return iceberg_files(f"{path.rstrip('/')}/metadata/{newest}")
    raise InputError(f"{path}: {kind} tables are not read; write the live rows to parquet files.")


def _hidden(below: str) -> bool:
    """Whether a file or a folder on the way starts with . or _, as what engines write aside."""
    return any(part.startswith((".", "_")) for part in below.split("/"))


def _checked(name: str) -> str:
    if not name.lower().endswith(".parquet"):
        raise InputError(
            f"{name}: an engine reads parquet files only; 'calibrant apply' and pandas write "
            "them, or leave --engine out."
        )
    return name
