"""Check before the work that an output can be written and replaces no input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibrant.errors import InputError

__all__ = [
    "can_come_whole",
    "check_folder",
    "check_part",
    "check_writable",
    "exists_error",
    "make_folder",
]


def check_writable(
    path: str | os.PathLike[str], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> Path:
    """Return the path if a file may be written there; long work checks before it starts.

    It is refused where it is one of the ``inputs``, under any name (a link, another path), or a
    file in one of them that is a folder, overwrite or not: what the work is made from is never what
    it replaces.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it.")
    if target.exists() and not target.is_file():
        raise InputError(f"{target} is a device or a pipe, which a file cannot replace.")
    if target.exists() and any(_is_part_of(target, source) for source in inputs):
        raise InputError(
            f"{target}: it is read here, and a file cannot overwrite itself; name another."
        )
    if os.path.lexists(target) and not overwrite:
        raise exists_error(target)
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: the folder {target.parent} is not writable.")
    return target


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make the folder and those above it if needed; check that files can be written there."""
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


def check_folder(target: Path, overwrite: bool) -> None:
    """Raise an error where no new folder can take its place."""
    if os.path.lexists(target):
        if target.is_symlink() or not target.is_dir():
            raise InputError(f"{target} exists and is not a folder; name a new one.")
        if not overwrite and any(target.iterdir()):
            raise InputError(f"{target} exists; name a new folder.")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")


def can_come_whole(folder: Path) -> bool:
    """Return whether nothing is in its place yet, or an empty folder that another can replace."""
    if not folder.is_dir():
        return True
    replaceable = os.access(folder.absolute().parent, os.W_OK) and not folder.is_symlink()
    return not any(folder.iterdir()) and replaceable and not folder.is_mount()


def check_part(folder: Path, target: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    """Check a file of a folder; folders between must be real ones, not links, or new."""
    between = target.parent
    if between != folder and (between.is_symlink() or (between.exists() and not between.is_dir())):
        raise InputError(f"{between} is not a folder, but a folder of this name is needed.")
    if between.is_dir():
        check_writable(target, overwrite=overwrite, inputs=inputs)


def _is_part_of(target: Path, source: Path) -> bool:
    """Return whether the file ``target`` is ``source``, or inside it."""
    if not source.is_dir():
        return source.exists() and target.samefile(source)
    return source.resolve() in target.resolve().parents


def exists_error(target: Path) -> InputError:
    """Return the error for a file that exists."""
    return InputError(f"{target} exists; pass overwrite=True (--overwrite) to replace it.")
