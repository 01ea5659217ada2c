"""From what the user names (files, folders of shards, globs) to files, with their fingerprints."""

from __future__ import annotations

import difflib
import glob
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

from calibrant.errors import InputError
from calibrant.inputs import check_file, door

__all__ = ["SUFFIXES", "Fingerprint", "Paths", "expand", "fingerprints", "suffix"]

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

SUFFIXES = (".parquet", ".npz", ".safetensors", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")

_SHARDS = (".parquet", ".npz")
_READ = 1 << 20


def suffix(path: Path) -> str:
    """Which of :data:`SUFFIXES` the name ends with.

    >>> suffix(Path("run.1/dev.CSV.gz"))
    '.csv.gz'
    """
    for known in SUFFIXES:
        if path.name.lower().endswith(known):
            return known
    raise InputError(
        f"{path}: unknown kind of file '{path.suffix}'; expected one of {', '.join(SUFFIXES)}."
    )


def expand(paths: Paths) -> list[Path]:
    """The files that ``paths`` names: a file, a folder of shards, a glob, or several.

    Shards and matches come in the order of their names. Shards are parquet files or, where a
    folder has none, npz files. Hidden files and those that start with ``_`` are left out of
    folders, as are unfinished ones, whose names do not end so.
    """
    several = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not several:
        raise InputError("No file was named.")
    found = [file for path in several for file in _expand(fspath(path))]
    for file in found:
        suffix(file)
    return found


def _expand(name: str) -> Iterator[Path]:
    if not name:
        raise InputError("An empty file name was given; name a file.")
    path = Path(name)
    if path.is_dir():
        yield from _shards(path)
    elif path.exists():
        yield check_file(path)
    elif glob.has_magic(name):
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise InputError(f"{name}: no file matches.")
        for match in matches:
            yield from _expand(match)
    else:
        raise InputError(f"{path}: no such file.{_near(path)}")


def _shards(folder: Path) -> list[Path]:
    for kind in _SHARDS:
        found = sorted(p for p in folder.glob(f"*{kind}") if p.name[0] not in "._")
        if found:
            return found
    raise InputError(f"{folder}: the folder has no {' or '.join(_SHARDS)} shards.")


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} either."
    near = difflib.get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


@dataclass(frozen=True)
class Fingerprint:
    """Which file it was: path as given, size in bytes, SHA-256 of the content."""

    path: str
    size: int
    sha256: str


def fingerprints(paths: Paths) -> tuple[Fingerprint, ...]:
    """The fingerprint of each file that ``paths`` names, read in pieces of bounded size."""
    return tuple(_fingerprint(path) for path in expand(paths))


def _fingerprint(path: Path) -> Fingerprint:
    digest = hashlib.sha256()
    with door(check_file(path), "not a whole file"), path.open("rb") as file:
        while piece := file.read(_READ):
            digest.update(piece)
    return Fingerprint(str(path), path.stat().st_size, digest.hexdigest())
