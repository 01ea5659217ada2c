"""Write a file over a long time, and continue where a killed process stopped.

The folder ``OUT.partial`` next to the file holds the output so far, a journal of how much of it is
complete, and a description of its input. The file gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from calibrant.errors import InputError
from calibrant.outputs import check_writable, take_place
from calibrant.unfinished import sync_folder

__all__ = ["ResumableFile"]

_EVERY, _SECONDS = 512, 1.0  # Inputs and time between two entries of the journal.


class ResumableFile:
    """Write the results of many inputs; a killed process loses a few hundred of them at most.

    ``about`` describes model, options and input as JSON. Opening the same file with the same
    description continues it: :attr:`done` is the number of inputs that need not be read again, and
    :attr:`resumed` is true if an earlier process began the file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with ResumableFile(f"{folder}/a.txt", {"input": "b"}) as file:
    ...         file.write("one input", inputs=1)
    ...     Path(f"{folder}/a.txt").read_text()
    'one input'
    """

    def __init__(
        self, path: str | os.PathLike[str], about: Mapping[str, Any], *, overwrite: bool = False
    ) -> None:
        self.path, self.overwrite = check_writable(path, overwrite=overwrite), overwrite
        self.folder = self.path.with_name(f"{self.path.name}.partial")
        self.about = json.loads(json.dumps(about))
        self.done, self.resumed = 0, False
        self._saved, self._bytes, self._when = 0, 0, 0.0

    def __enter__(self) -> ResumableFile:
        try:
            self._take_up()
        except OSError as error:
            raise InputError(f"{self.folder} cannot be written: {error.strerror}.") from None
        return self

    def write(self, text: str, inputs: int = 0) -> None:
        """Append the text of this many inputs."""
        content = text.encode("utf-8")
        self._file.write(content)
        self._bytes += len(content)
        self.done += inputs
        if self.done - self._saved >= _EVERY or time.monotonic() - self._when >= _SECONDS:
            self._save()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with contextlib.suppress(OSError):
                self._save()
        else:
            self._save()
            os.fsync(self._file.fileno())
        self._file.close()
        self._journal.close()
        if kind is None:
            take_place(self.folder / "rows", self.path, self.overwrite)
            sync_folder(self.path.absolute().parent)
        if kind is None or issubclass(kind, InputError):  # Bad input is read again when corrected.
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _take_up(self) -> None:
        """Open the folder of an earlier process that wrote the same, or a new one."""
        self.folder.mkdir(exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._hold()
            self._continue()
        except BaseException:
            os.close(self._lock)
            raise

    def _continue(self) -> None:
        there = _read(self.folder / "about.json")
        if there is not None and there != self.about and not self.overwrite:
            raise InputError(
                f"{self.folder} holds an unfinished output of another command: remove it, or pass "
                "overwrite=True (--overwrite)."
            )
        self.resumed = there == self.about
        self.done, self._bytes = self._journaled() if self.resumed else (0, 0)
        (self.folder / "about.json").write_text(json.dumps(self.about), encoding="utf-8")
        self._file = _opened(self.folder / "rows", self._bytes)
        self._journal = _opened(self.folder / "journal", 0)
        self._saved = -1
        self._save()

    def _hold(self) -> None:
        try:
            import fcntl

            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.path} is being written by another process.") from None
        except (ImportError, OSError):  # Windows, and file systems without locks.
            pass

    def _journaled(self) -> tuple[int, int]:
        """Return the last entry of the journal whose bytes are all there: inputs and bytes."""
        found = (0, 0)
        with contextlib.suppress(OSError, ValueError):
            size = (self.folder / "rows").stat().st_size
            for line in (self.folder / "journal").read_text().split("\n")[:-1]:
                inputs, written = map(int, line.split())
                found = (inputs, written) if written <= size else found
        return found

    def _save(self) -> None:
        if self.done != self._saved:
            self._file.flush()
            self._journal.write(f"{self.done} {self._bytes}\n".encode())
            self._journal.flush()
            self._saved, self._when = self.done, time.monotonic()


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _opened(path: Path, size: int) -> IO[bytes]:
    """Open a file to write on after its first bytes."""
    file = path.open("r+b" if path.exists() else "w+b")
    file.truncate(size)
    file.seek(size)
    return file
