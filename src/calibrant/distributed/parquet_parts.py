"""Parquet files as parts: runs of row groups of one file or of many, local or remote."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from calibrant.distributed.engine import Rows
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.formats import Paths, expand
from calibrant.inputs import door

__all__ = [
    "SCORES",
    "DamagedError",
    "FilePart",
    "Plan",
    "Segment",
    "filesystem",
    "plan_parts",
    "row_width",
]

SCORES = 1 << 23  # Numbers per part, about: 32 MB in float32.
_THREADS = 16  # Footers read at a time: each waits for the network.
_DAMAGE = "not a whole parquet file; it may be truncated"


class DamagedError(InputError):
    """Says which file, and which row group of it, cannot be read."""


@dataclass(frozen=True)
class Segment:
    """Consecutive row groups of one file; ``first`` is the number of the first row in the file."""

    path: str
    groups: tuple[int, ...]
    rows: tuple[int, ...]  # Of each group.
    first: int


@dataclass(frozen=True)
class FilePart:
    """Some row groups, which a worker opens itself."""

    segments: tuple[Segment, ...]
    start: int
    skip_damaged: bool = False
    left_out: list[tuple[str, int]] = field(default_factory=list, compare=False)

    @property
    def place(self) -> str:
        """The first file and its row groups."""
        first = self.segments[0]
        return f"{first.path}, row group {first.groups[0]}"

    def tables(self, columns: Sequence[str] | None, rows: int) -> Iterator[Rows]:
        """Yield batches of at most ``rows`` rows; ``left_out`` lists what cannot be read."""
        self.left_out.clear()  # Each pass finds the same.
        for segment in self.segments:
            first = segment.first
            for group, size in zip(segment.groups, segment.rows, strict=True):
                try:
                    yield from self._group(segment.path, group, first, columns, rows)
                except DamagedError as error:
                    if not self.skip_damaged:
                        raise
                    self.left_out.append((str(error), size))
                first += size

    def _group(
        self, path: str, group: int, first: int, columns: Sequence[str] | None, rows: int
    ) -> Iterator[Rows]:
        options = {"batch_size": rows, "row_groups": [group], "columns": columns}
        with opened(path, f"row group {group} is damaged") as file:
            batches = file.iter_batches(**options)
            # All or nothing: rows before the damage must not be counted.
            for batch in list(batches) if self.skip_damaged else batches:
                metadata = file.schema_arrow.metadata
                yield Rows(batch.replace_schema_metadata(metadata), path, first)
                first += batch.num_rows


@dataclass(frozen=True)
class Plan:
    """The parts of some files, their first schema, and what was left out before any was read."""

    files: tuple[str, ...]
    schemas: tuple[Any, ...]
    parts: tuple[FilePart, ...]
    rows: int
    damaged: tuple[str, ...] = ()


def plan_parts(paths: Paths, *, scores: int = SCORES, skip_damaged: bool = False) -> Plan:
    """Read the footers of all files and cut their row groups into parts of similar size."""
    require("pyarrow.parquet", "files", "Reading parquet")
    names = _listed(paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = list(pool.map(lambda name: _footer(name, skip_damaged), names))
    damaged = tuple(str(f) for f in footers if isinstance(f, DamagedError))
    whole = [(n, *f) for n, f in zip(names, footers, strict=True) if isinstance(f, tuple)]
    if not whole:
        raise InputError(f"No parquet file of {len(names)} can be read: {damaged[0]}")
    size = max(1, scores // row_width(whole[0][1]))
    parts = tuple(_cut(((name, rows) for name, _, rows in whole), size, skip_damaged))
    total = sum(sum(rows) for _, _, rows in whole)
    found, schemas = tuple(w[0] for w in whole), tuple(w[1] for w in whole)
    return Plan(found, schemas, parts, total, damaged)


def _cut(
    files: Iterator[tuple[str, list[int]]], size: int, skip_damaged: bool
) -> Iterator[FilePart]:
    """Yield parts of about ``size`` rows; small files share one, large ones have several."""
    segments: list[Segment] = []
    start = held = 0
    for name, rows in files:
        first = 0
        for group, count in enumerate(rows):
            if held and held + count > size:
                yield FilePart(tuple(segments), start, skip_damaged)
                start, held, segments = start + held, 0, []
            if count and segments and segments[-1].path == name:
                last = segments.pop()
                groups, sizes = (*last.groups, group), (*last.rows, count)
                segments.append(Segment(name, groups, sizes, last.first))
            elif count:
                segments.append(Segment(name, (group,), (count,), first))
            first, held = first + count, held + count
    if segments:
        yield FilePart(tuple(segments), start, skip_damaged)


def row_width(schema: Any) -> int:
    """Return about how many numbers a row has."""
    types = require("pyarrow.types", "files", "Reading parquet")
    lists = [f.type for f in schema if types.is_list(f.type) or types.is_large_list(f.type)]
    fixed = [f.type.list_size for f in schema if types.is_fixed_size_list(f.type)]
    return int(len(schema) + sum(fixed) + 64 * len(lists))


def _footer(name: str, skip_damaged: bool) -> tuple[Any, list[int]] | DamagedError:
    try:
        with opened(name, _DAMAGE) as file:
            found = file.metadata
            rows = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
            return file.schema_arrow, rows
    except DamagedError as error:
        if not skip_damaged:
            raise
        return error


@contextmanager
def opened(path: str, damage: str) -> Iterator[Any]:
    """Open a local or remote parquet file; damage becomes one line."""
    parquet = require("pyarrow.parquet", "files", "Reading parquet")
    arrow = require("pyarrow", "files", "Reading parquet")
    try:
        with (
            door(path, damage),
            _raw(path) as raw,
            parquet.ParquetFile(raw, pre_buffer=False, page_checksum_verification=True) as file,
        ):
            yield file
    except InputError as error:
        # What only the content of the file can cause; a missing file is no damage.
        if isinstance(error.__cause__, arrow.ArrowException | EOFError) or _no_number(error):
            raise DamagedError(str(error)) from error.__cause__
        raise


def _no_number(error: InputError) -> bool:
    # Of this very type: a refused or missing object of a remote storage has no number either.
    cause = error.__cause__
    return type(cause) is OSError and cause.errno is None


@contextmanager
def _raw(path: str) -> Iterator[Any]:
    if "://" not in path:
        with Path(path).open("rb") as file:
            yield file
        return
    system, name = filesystem(path)
    with system.open(name, "rb") as file:
        yield file


def filesystem(path: str) -> tuple[Any, str]:
    """Return the file system of an address such as s3://…, and the path in it."""
    fsspec = require("fsspec", "ray", f"Reading {path}")
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0].rstrip('.')}.") from None
    return found


def _listed(paths: Paths) -> list[str]:
    several = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not all(several) or not several:
        expand(several)  # Says what is missing; '' would be the folder of the process.
    found = [name for path in several for name in _expanded(fspath(path))]
    for name in found:
        if not name.lower().endswith(".parquet"):
            raise InputError(
                f"{name}: an engine reads parquet files only; 'calibrant apply' and pandas write "
                "them, or leave --engine out."
            )
    return found


def _expanded(path: str) -> list[str]:
    if "://" not in path:
        folder = Path(path)
        nested = sorted(folder.rglob("*.parquet"), key=str) if folder.is_dir() else []
        visible = [str(n) for n in nested if not _hidden(n.relative_to(folder).as_posix())]
        return visible or [str(file) for file in expand(path)]
    system, name = filesystem(path)
    with door(path, "it cannot be listed"):
        if glob.has_magic(name):
            names = sorted(system.glob(name))
        elif system.isdir(name):
            names = [n for n in sorted(system.find(name)) if n.lower().endswith(".parquet")]
            names = [n for n in names if not _hidden(n[len(name) :])]
        else:
            names = [name]
    if not names:
        raise InputError(f"{path}: there is no parquet file.")
    return [str(system.unstrip_protocol(n)) for n in names]


def _hidden(below: str) -> bool:
    """Whether a file or a folder on the way starts with . or _, as what engines write aside."""
    return any(part.startswith((".", "_")) for part in below.split("/"))
