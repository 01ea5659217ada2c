"""Writing files: whole or not at all, and never over what is there unless told so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["check_writable", "new_file"]


def check_writable(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The path, if a file may be written there; long work asks before it starts."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it.")
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists; pass overwrite=True (--overwrite) to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: the folder {target.parent} is not writable.")
    return target


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
    finally:
        unfinished.unlink(missing_ok=True)
