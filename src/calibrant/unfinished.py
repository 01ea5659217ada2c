"""Unfinished files and folders, under unique names that are locked while their writer lives.

The name is random and created exclusively. No other process (not even one with the same number in
another container), no thread and no planted symbolic link can have it. The writer holds a lock. A
killed process leaves its file without a lock, and the next writer in the same folder removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

_locks = True
try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Not on Windows: nothing is locked there, and nothing swept.
    _locks = False

__all__ = ["Unfinished", "remove_all", "sweep", "sync_folder", "sync_tree"]

_NAME = re.compile(r"\.calibrant-[0-9a-f]{16}\.unfinished(\..*)?", re.DOTALL)
_TRIES = 100
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_TO_SYNC = os.O_RDWR if os.name == "nt" else os.O_RDONLY
_live: set[Unfinished] = set()
_swept: set[tuple[int, int]] = set()


class Unfinished:
    """A new hidden file, or folder, in ``parent``; the suffix is last, as writers go by it."""

    def __init__(self, parent: Path, suffix: str = "", *, folder: bool = False) -> None:
        self._process = os.getpid()
        self._handle: int | None = None
        sweep(parent)
        for _ in range(_TRIES):
            self.path = parent / f".calibrant-{secrets.token_hex(8)}.unfinished{suffix}"
            _live.add(self)  # First: an interrupt may come right after it is made.
            try:
                self._handle = _made(self.path, folder)
            except OSError as error:
                _live.discard(self)
                if not isinstance(error, FileNotFoundError) or not parent.is_dir():
                    raise
                continue  # Swept before it was held.
            if self._handle is None or (_locked(self._handle) and self.is_own()):
                return
            self.remove()
        raise FileExistsError(f"{parent}: new files there are removed at once")

    def is_own(self) -> bool:
        """Return whether the name still belongs to the file that was made here."""
        if self._handle is None:
            return True
        try:
            return os.path.samestat(os.fstat(self._handle), self.path.lstat())
        except FileNotFoundError:
            return False

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        if self._handle is not None:
            os.fsync(self._handle)

    def remove(self) -> None:
        """Remove what is left of it, unless another has taken the name; repeating is harmless."""
        if self not in _live or os.getpid() != self._process:
            return
        if self.is_own():
            _remove(self.path)
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        _live.discard(self)  # Last: an interrupted removal is repeated.


def remove_all() -> None:
    """Remove all that this process has not finished, before it ends at once."""
    for unfinished in list(_live):
        with contextlib.suppress(OSError):
            unfinished.remove()


def sweep(folder: Path, *, again: bool = False) -> None:
    """Remove from ``folder`` what killed processes left unfinished; once, unless ``again``."""
    with contextlib.suppress(OSError):
        about = folder.stat()
        place = (about.st_dev, about.st_ino)
        if not _locks or (place in _swept and not again):
            return
        _swept.add(place)
        with os.scandir(folder) as entries:
            left = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
        for path in left:
            _remove_if_left(path)


def sync_folder(folder: Path) -> None:
    """Wait until the names in ``folder`` are on the disk, if the file system supports it."""
    with contextlib.suppress(OSError), _opened(folder, os.O_RDONLY) as handle:
        os.fsync(handle)


def sync_tree(folder: Path) -> None:
    """Wait until all files of ``folder`` are on the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            with _opened(Path(place, name), _TO_SYNC | _NO_LINK) as handle:
                os.fsync(handle)
        sync_folder(Path(place))


def _made(path: Path, folder: bool) -> int | None:
    """Make a file or folder; return the handle that locks it, or None without locks."""
    if folder:
        path.mkdir()
        flags = os.O_RDONLY | _NO_LINK
    else:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
    if folder and not _locks:
        return None
    handle = os.open(path, flags, 0o666)
    if not _locks:  # An open file cannot be renamed there.
        os.close(handle)
        return None
    return handle


def _locked(handle: int) -> bool:
    """Lock a handle; return False if a sweeper was quicker (none is without locks)."""
    try:
        flock(handle, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove_if_left(path: Path) -> None:
    """Remove a plain file or folder of ours that is not locked."""
    flags = os.O_RDONLY | _NO_LINK | os.O_NONBLOCK
    with contextlib.suppress(OSError), _opened(path, flags) as handle:
        about = os.fstat(handle)
        plain = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
        if not plain or about.st_uid != os.geteuid():
            return
        flock(handle, LOCK_EX | LOCK_NB)
        if os.path.samestat(about, path.lstat()):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)
