"""A folder of files that many workers write: complete or not there, resumable."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.distributed.listing import filesystem, writing
from calibrant.errors import InputError
from calibrant.outputs import check_folder, make_folder
from calibrant.unfinished import sync_folder, sync_tree

__all__ = ["opened_folder"]

_ABOUT = "_calibrant.json"  # Of an unfinished folder: what is written there.
_DONE = "_SUCCESS"  # As Spark marks a complete folder.


@contextmanager
def opened_folder(
    output: str, about: Mapping[str, Any], *, overwrite: bool = False
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield where workers write, and the names of the files that are there from an earlier try.

    These are those of a try with the same description ``about`` that was interrupted. The folder
    is complete when the block ends without an error. A worker that was slow, and is still at work
    then, must change nothing: workers write to the folder as it is and never make it themselves.
    """
    description: dict[str, Any] = json.loads(json.dumps(about))
    opened = _remote if "://" in output else _local
    with opened(output.rstrip("/"), description, overwrite) as found:
        yield found


@contextmanager
def _local(
    output: str, about: Mapping[str, Any], overwrite: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    target, place = Path(output), Path(f"{output}.partial")
    check_folder(target, overwrite)
    _check_same(place, place / _ABOUT, about, overwrite)
    make_folder(place)
    (place / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    try:
        there = frozenset(str(file.relative_to(place)) for file in _visible(place))
        yield str(place.absolute()), there  # Workers run in folders of their own.
    except InputError:  # Bad input is copied from the start when corrected.
        _remove(place)
        raise
    _take_place(place, target)


def _take_place(place: Path, target: Path) -> None:
    _remove_hidden(place)
    (place / _DONE).touch()
    sync_tree(place)
    if target.exists() and any(target.iterdir()):
        old = target.with_name(f".{target.name}.old")
        target.replace(old)
        place.replace(target)
        shutil.rmtree(old)
    else:
        place.replace(target)
    _remove_hidden(target)  # Of a worker that was slow: now it finds no place to write to.
    (target / _ABOUT).unlink()
    sync_folder(target.absolute().parent)


def _remove(place: Path) -> None:
    """Remove a folder that workers may still write to, by a name that they do not know."""
    other = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    place.replace(other)
    shutil.rmtree(other, ignore_errors=True)


def _remove_hidden(place: Path) -> None:
    """Remove the unfinished files of workers that were lost."""
    for hidden in list(place.rglob(".*")):
        hidden.unlink(missing_ok=True)


def _visible(place: Path) -> list[Path]:
    found = place.rglob("*.parquet")
    return [file for file in found if not file.name.startswith((".", "_"))]


def _check_same(place: Path, file: Path, about: Mapping[str, Any], overwrite: bool) -> None:
    if not place.exists():
        return
    if file.is_file() and _read(file.read_text(encoding="utf-8")) == about:
        return
    if not overwrite:
        raise _other(str(place))
    shutil.rmtree(place)


@contextmanager
def _remote(
    output: str, about: Mapping[str, Any], overwrite: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    system, folder = filesystem(output)
    mark = f"{folder}/{_ABOUT}"
    with writing(output):
        there = [name for name in system.find(folder) if name != folder]
        same = mark in there and _read(system.cat_file(mark).decode()) == about
        if there and not same:
            if not overwrite:
                raise _other(output)
            there = _without_ours(system, there)
        system.makedirs(folder, exist_ok=True)
        system.pipe_file(mark, json.dumps(about).encode())
    try:
        yield output, frozenset(name[len(folder) + 1 :] for name in there)
    except InputError:
        _without_ours(system, system.find(folder))
        raise
    with writing(output):
        system.pipe_file(f"{folder}/{_DONE}", b"")
        system.rm(mark)


def _without_ours(system: Any, names: list[str]) -> list[str]:
    """Remove the files that an output consists of, and nothing else; return the others."""
    ours = [name for name in names if name.endswith((".parquet", f"/{_DONE}", f"/{_ABOUT}"))]
    for name in ours:
        system.rm(name)
    return [name for name in names if name not in ours]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _other(place: str) -> InputError:
    return InputError(
        f"{place} holds other files, or an unfinished output of another command or other input: "
        "name a new folder, or pass overwrite=True (--overwrite)."
    )
