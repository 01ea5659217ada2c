"""Hash data: a resumed run must find the same data, and a cache must match what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.tasks.reading.catalogue import find_file, find_folder

__all__ = ["data_state", "disk_state", "fingerprint"]

_LARGE = 1 << 26


def fingerprint(labels: Sequence[str], parts: Iterable[Any]) -> str:
    """Hash all pieces and labels; equal for equal data and tokenizer. None is left out."""
    digest = hashlib.sha256("\0".join(labels).encode())
    for part in parts:
        if part is not None:
            for values in (part.ids, part.labels, part.starts):
                digest.update(np.ascontiguousarray(values, np.int64).tobytes())
    return digest.hexdigest()


def disk_state(*places: str | Path | None, large: int = _LARGE) -> str:
    """Hash what files, and all files of folders, hold now; None adds nothing.

    A cache uses this hash besides the name of the data, because a file may have changed. Files of
    more than ``large`` bytes count by their size and times.
    """
    digest = hashlib.sha256()
    for root in (Path(place) for place in places if place is not None):
        found = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
        for path in found:
            digest.update(f"\0{path}\0".encode("utf-8", "surrogateescape") + _content(path, large))
    return digest.hexdigest()


def _content(path: Path, large: int) -> bytes:
    try:
        if path.stat().st_size <= large:
            return hashlib.sha256(path.read_bytes()).digest()
        about = path.stat()
        return repr((about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)).encode()
    except OSError:  # Reading it as data will raise the error.
        return b""


def data_state(name: str, kind: str, directory: str | Path | None = None) -> str:
    """Hash the files of data by name; embedded data, or data on the hub, does not change."""
    names = (name, f"{name}.npz")
    files = (find_file(each, kind, directory) for each in names)
    return disk_state(find_folder(name, kind, directory) or next(filter(None, files), None))
