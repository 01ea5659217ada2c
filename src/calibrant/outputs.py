"""Writing files: whole or not at all, and never over what is there unless told so."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["HALF_A_CHARACTER", "check_writable", "make_folder", "new_file"]

# What a lone surrogate is, which Python's text may hold and no encoding of it.
HALF_A_CHARACTER = "a name or text holds half of a character (a lone surrogate); correct it"


def check_writable(
    path: str | os.PathLike[str], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> Path:
    """The path, if a file may be written there; long work asks before it starts.

    It is refused where it names one of the ``inputs``, overwrite or not: what the work is made
    from is never what it replaces.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it.")
    if target.exists() and not target.is_file():
        raise InputError(f"{target} is a device or a pipe, which a file cannot replace.")
    if target.exists() and any(source.exists() and target.samefile(source) for source in inputs):
        raise InputError(
            f"{target}: it is read here, and a file is not written over itself; name another."
        )
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists; pass overwrite=True (--overwrite) to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: the folder {target.parent} is not writable.")
    return target


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made with those above it where it is not there yet, and open to new files."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be made ({error.strerror}).") from None
    try:  # Rights alone do not tell: a disk may be read-only or full.
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"?")
    except OSError as error:
        raise InputError(f"{path}: no file can be written there ({error.strerror}).") from None
    return Path(path)


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A hidden file beside ``path`` that takes its place once it is written without an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with new_file(f"{folder}/a.txt") as unfinished:
    ...         _ = unfinished.write_text("whole")
    ...     Path(f"{folder}/a.txt").read_text()
    'whole'
    """
    target = check_writable(path, overwrite=overwrite)
    # The suffix stays last: some writers choose their format by it.
    unfinished = target.with_name(f".{os.getpid()}.unfinished.{target.name}")
    try:
        yield unfinished
        unfinished.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}.") from None
    except UnicodeError:
        raise InputError(f"{target} cannot be written: {HALF_A_CHARACTER}.") from None
    finally:
        unfinished.unlink(missing_ok=True)
