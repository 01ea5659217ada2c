"""Calibrated copies of parquet files, made by many workers.

A worker writes the copy of one file under a hidden name and then gives it its own. A file that is
copied twice, because a worker was lost or slow, is the same file: no row counts twice. The files
wait in ``OUT.partial`` until all are there; on object storage, which cannot rename, they are in
``OUT``, and ``OUT/_SUCCESS`` is written last. After a kill, the same call copies what is missing.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from calibrant.calibrators import Calibrator
from calibrant.distributed.engine import Engine, LocalEngine
from calibrant.distributed.listing import filesystem, writing
from calibrant.distributed.output_folders import opened_folder
from calibrant.distributed.parquet_parts import FilePart, Plan, Segment, plan_parts
from calibrant.errors import CalibrantError, InputError
from calibrant.files import Paths, rewrite
from calibrant.files.columns import DEFAULT_COLUMNS, Columns
from calibrant.files.format import FileKind
from calibrant.inputs import door
from calibrant.policies import calibrator_fingerprint

__all__ = ["Copied", "apply_to_files"]

_WRITTEN = ("size", "mtime", "created", "LastModified", "updated", "ETag", "etag", "md5Hash")
_ROWS = 1 << 16  # Rows of a damaged file that are read at a time.


class Copied(NamedTuple):
    """How many rows and files were copied, and which files were left out as damaged."""

    rows: int
    files: int
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyPart:
    """A file, its row groups, and where its copy goes."""

    source: FilePart
    name: str
    rows: int
    start: int

    @property
    def path(self) -> str:
        """The file."""
        return self.source.segments[0].path


def apply_to_files(
    calibrator: Calibrator,
    paths: Paths,
    output: str | PathLike[str],
    *,
    engine: Engine | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    skip_damaged: bool = False,
    overwrite: bool = False,
) -> Copied:
    """Write a copy of each parquet file with calibrated probabilities, to the folder ``output``.

    Copies have the names of their files, also in folders below. ``skip_damaged`` leaves out files
    that cannot be read to the end.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions, Temperature
    >>> from calibrant.files import read
    >>> p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     p.write(f"{folder}/day.parquet")
    ...     fitted = Temperature().fit(p)
    ...     print(apply_to_files(fitted, f"{folder}/day.parquet", f"{folder}/honest"))
    ...     read(f"{folder}/honest/day.parquet").probabilities()[0].round(2)
    Copied(rows=4, files=1, damaged=())
    array([0.75, 0.25])
    """
    plan = plan_parts(paths, skip_damaged=skip_damaged)
    parts = _parts(plan, _names(plan.files, paths))
    _check_apart(plan.files, paths, fspath(output))
    about = {
        "calibrator": calibrator_fingerprint(calibrator),
        "reading": [repr(columns), kind, skip_damaged],
        "files": [[part.path, part.rows, _written(part.path)] for part in parts],
    }
    with opened_folder(fspath(output), about, overwrite=overwrite) as (place, there):
        left = [part for part in parts if part.name not in there]
        task = _Copy(calibrator, columns, kind, place, skip_damaged)
        results = [json.loads(found) for found in (engine or LocalEngine()).map(task, left)]
        damaged = [(rows, message) for rows, message in results if message is not None]
        if len(damaged) == len(parts):
            raise InputError(f"No parquet file of {len(parts)} can be read: {damaged[0][1]}")
        if "://" not in place:
            _check_all_there(place, [part.name for part in parts], len(damaged))
    messages = tuple(sorted(message for _, message in damaged))
    rows = plan.rows - sum(rows for rows, _ in damaged)
    return Copied(rows, len(parts) - len(damaged), (*plan.damaged, *messages))


def _check_apart(files: Sequence[str], paths: Paths, output: str) -> None:
    """Refuse a folder that holds files which are read, or would be read with them next time."""
    target = _whole_address(output)
    read = [file if "://" in file else _whole_address(file) for file in files]
    for file in read:
        if file.startswith(f"{target}/"):
            raise InputError(f"{output} holds {file}, which is read: name another folder.")
    for given in _listed(paths):
        folder = f"{_whole_address(given)}/"
        if target.startswith(folder) and any(file.startswith(folder) for file in read):
            raise InputError(
                f"{output} is in {given}, and would be read with it next time: name a folder "
                "outside."
            )


def _listed(paths: Paths) -> list[str]:
    return [fspath(path) for path in ([paths] if isinstance(paths, (str, PathLike)) else paths)]


def _whole_address(path: str) -> str:
    """Return an address, or an absolute path, in its only spelling."""
    return (_address(path) if "://" in path else str(Path(path).resolve())).rstrip("/")


def _parts(plan: Plan, names: Mapping[str, str]) -> list[CopyPart]:
    """Return one part per file, with all its row groups; a file without rows has none."""
    of_file: dict[str, list[Segment]] = {}
    for part in plan.parts:
        for segment in part.segments:
            of_file.setdefault(segment.path, []).append(segment)
    found, start = [], 0
    for path, segments in of_file.items():
        rows = sum(sum(segment.rows) for segment in segments)
        source = FilePart(tuple(segments), start, skip_damaged=True)
        found.append(CopyPart(source, names[path], rows, start))
        start += rows
    if not found:
        raise InputError(f"{plan.files[0]}: no rows.")
    return found


def _names(files: Sequence[str], paths: Paths) -> dict[str, str]:
    """Return the name of each copy: the path below the folder that was given, or the file's name.

    >>> _names(["/a/b/c.parquet", "/d.parquet"], ["/a", "/d.parquet"])
    {'/a/b/c.parquet': 'b/c.parquet', '/d.parquet': 'd.parquet'}
    """
    folders = [f"{_address(path).rstrip('/')}/" for path in _listed(paths)]
    names = {}
    for file in files:
        folder = next((f for f in folders if file.startswith(f)), None)
        names[file] = file.rpartition("/")[2] if folder is None else file[len(folder) :]
    name, count = Counter(names.values()).most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} files are called {name}; give each its own command.")
    return names


def _address(path: str) -> str:
    """Return a path as the plan spells it."""
    if "://" not in path:
        return str(Path(path).absolute())
    system, name = filesystem(path)
    return str(system.unstrip_protocol(name))


def _written(path: str) -> list[str]:
    """Return what changes when a file is written again: its size and time, or its tag."""
    if "://" not in path:
        found = Path(path).stat()
        return [str(found.st_size), str(found.st_mtime_ns)]
    system, name = filesystem(path)
    with door(path, "it cannot be read"):
        about = system.info(name)
    return [str(about[key]) for key in _WRITTEN if key in about]


@dataclass(frozen=True)
class _Copy:
    """Copies a file on a worker; returns its rows, and the damage of one that is left out."""

    calibrator: Calibrator
    columns: Columns
    kind: FileKind | None
    place: str
    skip_damaged: bool

    def __call__(self, part: CopyPart) -> bytes:
        try:
            self._copy(part.path, f"{self.place}/{part.name}")
        except InputError as error:
            damage = _damage(part)
            if damage is None or not self.skip_damaged:
                raise InputError(damage or str(error)) from None
            return json.dumps([part.rows, damage]).encode()
        return json.dumps([part.rows, None]).encode()

    def _copy(self, source: str, target: str) -> None:
        if "://" not in target:
            _make_folders(Path(self.place), Path(target).parent)
        if "://" not in source and "://" not in target:
            self._rewrite(Path(source), Path(target))
            return
        with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
            given, made = Path(folder, "given.parquet"), Path(folder, "made.parquet")
            _fetch(source, given)
            try:
                self._rewrite(given, made)
            except InputError as error:
                raise InputError(str(error).replace(str(given), source)) from None
            _send(made, target)

    def _rewrite(self, source: Path, target: Path) -> None:
        rewrite(
            source,
            target,
            self.calibrator.transform,
            self.columns,
            self.kind,
            groups=self.calibrator.groups_,
            whole=bool(self.calibrator.signals_),  # Means over sentences: none may be cut.
            overwrite=True,  # An earlier attempt may have written the same.
        )


def _check_all_there(place: str, names: Sequence[str], damaged: int) -> None:
    """Check that each copy has come: a node may have a folder of this name on a disk of its own."""
    missing = [name for name in names if not Path(place, name).is_file()]
    if len(missing) > damaged:
        raise CalibrantError(
            f"{place}: {len(missing) - damaged} of {len(names)} copies are not there, such as "
            f"{missing[0]}, although workers have written them: copies go to a folder that all "
            "nodes share, or to an address such as s3://bucket/folder."
        )


def _make_folders(place: Path, folder: Path) -> None:
    """Make a folder below the output, which must be there: this node may have disks of its own."""
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(place)][:-1]
    try:
        if not place.is_dir():
            raise FileNotFoundError
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise CalibrantError(
            f"{place} is not there on the node {socket.gethostname()}: copies go to a folder that "
            "all nodes share, or to an address such as s3://bucket/folder."
        ) from None


def _damage(part: CopyPart) -> str | None:
    """Return which row group of a file cannot be read, if one is the reason."""
    for _ in part.source.tables(None, _ROWS):
        pass
    return part.source.left_out[0][0] if part.source.left_out else None


def _fetch(source: str, target: Path) -> None:
    if "://" not in source:
        shutil.copyfile(source, target)
        return
    system, name = filesystem(source)
    with door(source, "it cannot be read"):
        system.get_file(name, str(target))


def _send(source: Path, target: str) -> None:
    """Bring a file to its place; object storage shows it when it is whole."""
    if "://" not in target:
        hidden = Path(target).with_name(f".{source.parent.name}-{Path(target).name}")
        shutil.copyfile(source, hidden)
        hidden.replace(target)
        return
    system, name = filesystem(target)
    with writing(target):
        system.makedirs(name.rpartition("/")[0], exist_ok=True)
        system.put_file(str(source), name)
