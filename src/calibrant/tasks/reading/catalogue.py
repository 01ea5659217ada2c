"""Data by name: a folder or a file, here or in the data directory."""

from __future__ import annotations

import os
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["data_directory", "find_file", "find_folder", "is_place"]

_AS_DISTRIBUTED = {"tiny-imagenet": "tiny-imagenet-200"}  # Our name → that of the folder.


def data_directory(given: str | Path | None = None) -> Path | None:
    """Return the directory given, or that of the environment variable CALIBRANT_DATA, or None."""
    named = given or os.environ.get("CALIBRANT_DATA")
    if not named:
        return None
    path = Path(named)
    if not path.is_dir():
        raise InputError(f"The data directory {path} does not exist.")
    return path


def find_folder(name: str, kind: str, directory: str | Path | None = None) -> Path | None:
    """Find the folder ``name``: a path, or in the data directory, under ``kind`` or directly.

    >>> find_folder("no-such-corpus", "ner") is None
    True
    """
    names = (name, _AS_DISTRIBUTED.get(name, name))
    places = (place for each in names for place in _places(each, kind, directory))
    return next((place for place in places if place.is_dir()), None)


def find_file(name: str, kind: str, directory: str | Path | None = None) -> Path | None:
    """Find the file ``name``, in the same places.

    >>> find_file("no-such-file.npz", "image") is None
    True
    """
    return next((place for place in _places(name, kind, directory) if place.is_file()), None)


def _places(name: str, kind: str, directory: str | Path | None) -> list[Path]:
    root = data_directory(directory)
    here = [Path(name)] if is_place(name) else []
    return here if root is None else [*here, root / kind / name, root / name]


def is_place(name: str) -> bool:
    """Return whether a name is that of a folder or file here, and not of a run's folder.

    Else ``--data gum -o gum`` would mean the run instead of the corpus the second time.
    """
    path = Path(name)
    marks = ("recipe.json", ".lock", "seed-*/recipe.json", "seed-*/.lock")
    return path.exists() and not any(next(path.glob(mark), None) for mark in marks)
