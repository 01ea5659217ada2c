"""Arrow IPC files, also called feather: the columns of parquet, read by record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calibrant.extras import require
from calibrant.files.format import Format
from calibrant.files.parquet import ParquetSource, as_before, table_of
from calibrant.inputs import door

__all__ = ["ARROW"]


class ArrowSource(ParquetSource):
    """One Arrow file."""

    @staticmethod
    @contextmanager
    def opened(path: Path, coded: Sequence[str] = ()) -> Iterator[Any]:  # noqa: ARG004
        """Open the file, with what the reader of parquet offers."""
        ipc = require("pyarrow.ipc", "files", "Reading arrow files")
        with door(path, "not a whole arrow file; it may be truncated"), path.open("rb") as raw:
            yield _File(ipc.open_file(raw))

    @staticmethod
    def write_tables(tables: Iterator[Any], path: Path) -> None:
        """Write one record batch per table."""
        _write_tables(tables, path)


class _File:
    """The part of pyarrow's ParquetFile that the source uses."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema_arrow = reader.schema
        batches = range(reader.num_record_batches)
        self.metadata = SimpleNamespace(num_rows=sum(reader.get_batch(i).num_rows for i in batches))

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator[Any]:
        """Yield batches of at most ``batch_size`` rows."""
        for i in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(i).select(columns)
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)


def _write_tables(tables: Iterator[Any], path: Path) -> None:
    ipc = require("pyarrow.ipc", "files", "Writing arrow files")
    writer = schema = None
    try:
        for table in tables:
            if writer is None:
                schema = table.schema
                writer = ipc.new_file(str(path), schema)
            writer.write_table(as_before(table, schema))
    finally:
        if writer is not None:
            writer.close()


def _write(parts: Iterator[Any], path: Path) -> None:
    """Write one record batch per part: the columns of a parquet file."""
    arrow = require("pyarrow", "files", "Writing arrow files")
    _write_tables((table_of(arrow, part.numpy()) for part in parts), path)


ARROW = Format((".arrow", ".feather"), ArrowSource, _write, shards=True)
