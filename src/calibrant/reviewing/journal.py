"""Write lines of JSON that are on the disk at once, from several processes, and never lose one."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calibrant.errors import InputError

__all__ = ["Journal"]

_PATIENCE = 10.0  # Seconds to wait for the lock of another process, which may never end.


class Journal:
    """A file that only grows; its first line is the ``head``, which says what the file is.

    Each process reads and writes under a lock. A line is on the disk when :meth:`append` returns,
    and nothing of it if that fails. A killed process may leave half of a line, which the next line
    ends. Without a ``head`` the file is only read.
    """

    def __init__(self, path: Path, head: Mapping[str, Any] | None) -> None:
        self.path, self._head = path, head
        self._read_to, self._lines = 0, 0
        self._last = b""  # The line that ends where reading stopped.
        self._file, self._threads = -1, threading.Lock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Open the file and keep other threads and processes out."""
        with self._threads, self._opened(), self._alone():
            self._check_same()
            yield

    @contextmanager
    def _opened(self) -> Iterator[None]:
        try:
            flags = os.O_RDONLY if self._head is None else os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = os.open(self.path, flags | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            doing = "read" if self._head is None else "written"
            raise InputError(f"{self.path} cannot be {doing}: {error.strerror}.") from None
        try:
            yield
        finally:
            os.close(self._file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes out; systems without such locks support only one process."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        kind = fcntl.LOCK_SH if self._head is None else fcntl.LOCK_EX
        end = time.monotonic() + _PATIENCE
        while not self._took(lambda: fcntl.flock(self._file, kind | fcntl.LOCK_NB)):
            if time.monotonic() > end:
                raise InputError(
                    f"{self.path} has been locked by another process for {_PATIENCE:g} seconds: "
                    "stop that process, or try again."
                )
            time.sleep(0.002)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _took(self, lock: Callable[[], None]) -> bool:
        try:
            lock()
        except BlockingIOError:
            return False
        except OSError as error:
            raise InputError(f"{self.path} cannot be locked: {error.strerror}.") from None
        return True

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and content of each complete line that was not yielded before.

        A line that the caller refuses by an error is yielded again.
        """
        if not self._read_to:
            self._begin()
        os.lseek(self._file, self._read_to, os.SEEK_SET)
        with open(self._file, "rb", closefd=False) as file:
            *whole, _ = file.read().split(b"\n")
        for line in whole:
            yield self._lines + 1, line
            self._read_to += len(line) + 1
            self._lines += 1
            self._last = line + b"\n"

    def append(self, content: Mapping[str, Any]) -> None:
        """Write one line to the disk, or nothing if that fails."""
        end = os.fstat(self._file).st_size
        line = _line(content)
        if end and end != self._read_to:  # The file ends in half of a line: begin a new one.
            line = b"\n" + line
        try:
            _write(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise InputError(f"{self.path} cannot be written: {error.strerror}.") from None

    def _check_same(self) -> None:
        """Refuse a file that was removed, replaced or shortened after it was read."""
        os.lseek(self._file, self._read_to - len(self._last), os.SEEK_SET)
        if os.read(self._file, len(self._last)) != self._last:
            raise InputError(
                f"{self.path} was removed or replaced during the review: put it back, or start the "
                "review again."
            )

    def _begin(self) -> None:
        """Write the head into a new file, or over the half of it that a killed process left."""
        if self._head is None or b"\n" in (found := _start(self._file)):
            return
        if not _line(self._head).startswith(found):
            raise InputError(f"{self.path} is not a file of decisions.")
        os.ftruncate(self._file, 0)
        self.append(self._head)
        _keep_name(self.path)


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _start(file: int) -> bytes:
    """Return the first line, or as much as is there."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as reader:
        return reader.readline(1 << 20)


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _keep_name(path: Path) -> None:
    """Write the name of a new file to the disk too, where systems allow it."""
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
