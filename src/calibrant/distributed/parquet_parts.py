"""Parquet files as parts: runs of row groups of one file or of many, local or remote."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calibrant.distributed.data_files import Added, DataFile, with_added
from calibrant.distributed.engine import Rows
from calibrant.distributed.listing import filesystem, list_files
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.formats import Paths
from calibrant.inputs import door

__all__ = [
    "SCORES",
    "DamagedError",
    "FilePart",
    "Plan",
    "Segment",
    "plan_parts",
    "row_width",
]

SCORES = 1 << 23  # Numbers per part, at least, where there are as many: 32 MB in float32.
# More of many parts: a part costs its own start and a result of megabytes, of few rows as of many.
_MOST_SCORES = 1 << 25
_PARTS_PER_WORKER = 16  # Then none waits long for the last part.
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
    added: Added = ()  # Columns of one value, which the file itself does not hold.


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
                    for found in self._group(segment.path, group, first, columns, rows):
                        yield with_added(found, segment.added, columns)
                except DamagedError as error:
                    if not self.skip_damaged:
                        raise
                    self.left_out.append((str(error), size))
                except InputError as error:
                    raise _lost_since(segment.path, error) from error.__cause__
                first += size

    def _group(
        self, path: str, group: int, first: int, columns: Sequence[str] | None, rows: int
    ) -> Iterator[Rows]:
        # One thread: engines give each part one processor.
        options = {"row_groups": [group], "columns": columns, "use_threads": False}
        with opened(path, f"row group {group} is damaged") as file:
            batches = file.iter_batches(rows, **options)
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


def plan_parts(
    paths: Paths, *, scores: int | None = None, workers: int = 1, skip_damaged: bool = False
) -> Plan:
    """Read the footers of all files and cut their row groups into parts of similar size.

    A part has about ``scores`` numbers, or as many as are good for this number of workers.
    """
    require("pyarrow.parquet", "files", "Reading parquet")
    files = list_files(paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = list(pool.map(lambda file: _footer(file, skip_damaged), files))
    damaged = tuple(str(f) for f in footers if isinstance(f, DamagedError))
    whole = [(n, *f) for n, f in zip(files, footers, strict=True) if isinstance(f, tuple)]
    if not whole:
        raise InputError(f"No parquet file of {len(files)} can be read: {damaged[0]}")
    total, width = sum(sum(rows) for _, _, rows in whole), row_width(whole[0][1])
    size = max(1, (scores or _good_size(total * width, workers)) // width)
    parts = tuple(_cut(((file, rows) for file, _, rows in whole), size, skip_damaged))
    found, schemas = tuple(w[0].path for w in whole), tuple(w[1] for w in whole)
    return Plan(found, schemas, parts, total, damaged)


def _good_size(scores: int, workers: int) -> int:
    """Return the numbers per part of a table.

    >>> [_good_size(10**9, workers) / SCORES for workers in (1, 8, 64)]
    [4.0, 1.0, 1.0]
    """
    return max(SCORES, min(_MOST_SCORES, scores // (_PARTS_PER_WORKER * workers)))


def _cut(
    files: Iterator[tuple[DataFile, list[int]]], size: int, skip_damaged: bool
) -> Iterator[FilePart]:
    """Yield parts of about ``size`` rows; small files share one, large ones have several."""
    segments: list[Segment] = []
    start = held = 0
    for file, rows in files:
        first, name = 0, file.path
        for group, count in enumerate(rows):
            if held and held + count > size:
                yield FilePart(tuple(segments), start, skip_damaged)
                start, held, segments = start + held, 0, []
            if count and segments and segments[-1].path == name:
                last = segments.pop()
                groups, sizes = (*last.groups, group), (*last.rows, count)
                segments.append(replace(last, groups=groups, rows=sizes))
            elif count:
                segments.append(Segment(name, (group,), (count,), first, file.added))
            first, held = first + count, held + count
    if segments:
        yield FilePart(tuple(segments), start, skip_damaged)


def row_width(schema: Any) -> int:
    """Return about how many numbers a row has."""
    types = require("pyarrow.types", "files", "Reading parquet")
    lists = [f.type for f in schema if types.is_list(f.type) or types.is_large_list(f.type)]
    fixed = [f.type.list_size for f in schema if types.is_fixed_size_list(f.type)]
    return int(len(schema) + sum(fixed) + 64 * len(lists))


def _footer(data: DataFile, skip_damaged: bool) -> tuple[Any, list[int]] | DamagedError:
    try:
        with opened(data.path, _DAMAGE) as file:
            found = file.metadata
            rows = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
            return data.schema(file.schema_arrow), rows
    except DamagedError as error:
        if not skip_damaged:
            raise
        return error


@contextmanager
def opened(path: str, damage: str) -> Iterator[Any]:
    """Open a local or remote parquet file; an error becomes one line, that of damage its own."""
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
        # What only the content of the file can cause.
        if isinstance(error.__cause__, arrow.ArrowException | EOFError) or _no_number(error):
            raise DamagedError(str(error)) from error.__cause__
        # A missing file, a refused one, or a network that failed.
        raise InputError(str(error).replace(damage, "it cannot be read")) from error.__cause__


def _lost_since(path: str, error: InputError) -> InputError:
    """Return the error of a file that was there when files were listed, on this machine or not."""
    if not isinstance(error.__cause__, FileNotFoundError):
        return error
    node = socket.gethostname()
    return InputError(
        f"{path}: it was listed, but is not there on the node {node}: files must be on a disk "
        "that all nodes share, or at an address such as s3://bucket/folder, and must stay there."
    )


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
