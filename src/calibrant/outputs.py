"""Write files and folders atomically. Existing ones are kept unless ``overwrite`` is set.

Everything that calibrant writes goes through here. It is written under a hidden name in the
same folder (:mod:`calibrant.unfinished`), brought to the disk, and then takes its place in one step
that no reader sees half of.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from calibrant.errors import CalibrantError, InputError
from calibrant.output_checks import (
    can_come_whole,
    check_folder,
    check_part,
    check_writable,
    exists_error,
    make_folder,
)
from calibrant.unfinished import Unfinished, sync_folder, sync_tree

__all__ = [
    "check_folder",
    "check_writable",
    "make_folder",
    "new_file",
    "new_files",
    "new_folder",
    "take_place",
]

# What a lone surrogate is, which Python's text may hold and no encoding of it.
_HALF_A_CHARACTER = "a name or text contains half of a character (a lone surrogate); correct it"
# What only a file that is written can meet; all else may come from one that is read meanwhile.
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
# As file systems say that they have no links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@contextmanager
def new_file(
    path: str | os.PathLike[str], *, overwrite: bool = False, inputs: Iterable[Path] = ()
) -> Iterator[Path]:
    """Yield a hidden file next to ``path`` that replaces it once it is written without an error.

    Without ``overwrite`` it is refused also where another process writes ``path`` meanwhile.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with new_file(f"{folder}/a.txt") as unfinished:
    ...         _ = unfinished.write_text("whole")
    ...     Path(f"{folder}/a.txt").read_text()
    'whole'
    """
    target = check_writable(path, overwrite=overwrite, inputs=inputs)
    with _unfinished(target, target.parent, target.suffix) as unfinished:
        yield unfinished.path
        with _written(target):
            unfinished.sync()
            if not unfinished.is_own():
                raise InputError(f"{target}: another process removed it before it was finished.")
            take_place(unfinished.path, target, overwrite)
            sync_folder(target.parent)


@contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden folder next to ``path`` that replaces it once it is filled without an error.

    An empty folder may be there. One that holds something is refused, or with ``overwrite`` given
    up for the new one as a whole.
    """
    target = Path(path)
    check_folder(target, overwrite)
    with _unfinished(target, target.absolute().parent, folder=True) as unfinished:
        yield unfinished.path
        with _written(target):
            _open_to_readers(unfinished.path)
            sync_tree(unfinished.path)
            if overwrite and target.exists():
                with _unfinished(target, target.absolute().parent, folder=True) as old:
                    target.replace(old.path / "old")  # Goes with it.
                    unfinished.path.replace(target)
            else:
                unfinished.path.replace(target)
            sync_folder(target.absolute().parent)


@contextmanager
def new_files(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[Path] = (),
) -> Iterator[Path]:
    """Yield a hidden folder, whose files of these ``names`` move to ``folder`` at the end.

    A folder that is new, or empty, appears whole. In another they come one right after the other,
    in the order of ``names``, when all are written; ``overwrite`` replaces those that are there.
    After an error none of them has come.
    """
    folder, inputs = Path(folder), list(inputs)
    if can_come_whole(folder):
        make_folder(folder.absolute().parent)
        with new_folder(folder) as unfinished:
            yield unfinished
        return
    for name in names:
        check_part(folder, folder / name, overwrite, inputs)
    with _unfinished(folder, folder, folder=True) as left:
        yield left.path
        with _written(folder):
            sync_tree(left.path)
            _take_places(left.path, folder, names, overwrite)


def _open_to_readers(folder: Path) -> None:
    """Make files readable for all who can read the folder; safetensors makes them private."""
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(folder.stat().st_mode & 0o666)


@contextmanager
def _unfinished(
    target: Path, parent: Path, suffix: str = "", *, folder: bool = False
) -> Iterator[Unfinished]:
    """Yield an unfinished path that is removed at the end; an error in writing becomes one line."""
    with _written(target):
        unfinished = Unfinished(parent, suffix, folder=folder)
    try:
        yield unfinished
    except CalibrantError:
        raise
    except UnicodeError as error:
        # pyarrow decodes NumPy's texts; other bytes that are no text were read, not written.
        if isinstance(error, UnicodeDecodeError) and not error.encoding.startswith("utf-32"):
            raise
        raise InputError(f"{target} cannot be written: {_HALF_A_CHARACTER}.") from None
    except Exception as error:
        cause = _cause_in_writing(error, str(unfinished.path))
        if cause is None:
            raise
        raise _unwritable(target, cause) from None
    finally:
        unfinished.remove()


def _cause_in_writing(error: BaseException | None, unfinished: str) -> OSError | None:
    """Return the system's error, if the file being written met it and not one being read.

    Some writers, such as torch, raise their own errors.
    """
    while error is not None:
        if isinstance(error, OSError):
            message = f"{error.filename} {error}"
            if error.errno in _OF_WRITING or unfinished in message:
                return error
            if error.errno is None and "written" in message:  # NumPy's message for a full disk.
                return error
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def _written(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(f"{target} cannot be written: {error.strerror or error}.")


def take_place(unfinished: Path, target: Path, overwrite: bool) -> None:
    """Rename in one step; without ``overwrite`` the system refuses an existing target."""
    if overwrite:
        unfinished.replace(target)
        return
    try:
        os.link(unfinished, target)
    except FileExistsError:
        raise exists_error(target) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        target.touch(exist_ok=False)
        unfinished.replace(target)
    else:
        unfinished.unlink()


def _take_places(left: Path, folder: Path, names: Sequence[str], overwrite: bool) -> None:
    come: dict[Path, os.stat_result] = {}
    try:
        for name in names:
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            about = (left / name).stat()
            take_place(left / name, target, overwrite)
            come[target] = about
    except BaseException:
        if not overwrite:
            _take_back(come)
        raise
    for place in {target.parent for target in come}:
        sync_folder(place)


def _take_back(come: Mapping[Path, os.stat_result]) -> None:
    """Remove the files that were moved, unless another process has replaced them."""
    for target, about in come.items():
        with suppress(FileNotFoundError):
            if os.path.samestat(about, target.lstat()):
                target.unlink()
