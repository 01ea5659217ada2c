"""Parquet again with other scores: batch by batch, all other columns as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.parquet import opened_parquet
from calibrant.files.source import Layout

__all__ = ["rewrite_parquet"]


def rewrite_parquet(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """One row group per part; the new columns stand where the old ones stood."""
    arrow = require("pyarrow", "files", "Writing parquet")
    parquet = require("pyarrow.parquet", "files", "Writing parquet")
    renamed = dict(zip(layout.scores, names, strict=True))
    with opened_parquet(path) as file:
        schema = file.schema_arrow
    replaced = set(names)
    kept = [name for name in schema.names if name in renamed or name not in replaced]
    others = _Others(arrow, path, [name for name in kept if name not in renamed])
    metadata = _metadata(schema.metadata or {}, layout, bool(replaced - set(layout.scores)))
    writer = None
    try:
        for part in parts:
            new = _columns(arrow, part, names, layout.per_class)
            table = others.take(len(part))
            columns = {
                renamed.get(n, n): new[renamed[n]] if n in renamed else table.column(n)
                for n in kept
            }
            batch = arrow.table(columns).replace_schema_metadata(metadata)
            writer = writer or parquet.ParquetWriter(target, batch.schema, write_page_checksum=True)
            writer.write_table(batch, row_group_size=max(1, len(batch)))
    except arrow.ArrowException as error:
        told = str(error).splitlines()[0]
        raise InputError(f"{path}: its columns cannot be written again ({told}).") from None
    finally:
        if writer is not None:
            writer.close()


class _Others:
    """The columns that are copied, taken by any number of rows."""

    def __init__(self, arrow: Any, path: Path, names: Sequence[str]) -> None:
        self._arrow = arrow
        self._path = path
        self._names = names
        self._batches = self._read()
        self._rest: Any = None

    def _read(self) -> Iterator[Any]:
        with opened_parquet(self._path) as file:
            yield from file.iter_batches(batch_size=1 << 14, columns=list(self._names))

    def take(self, rows: int) -> Any:
        """The next ``rows`` rows as a table."""
        if not self._names:
            return None
        held = [] if self._rest is None else [self._rest]
        while sum(len(table) for table in held) < rows:
            batch = next(self._batches, None)
            if batch is None:
                raise InputError(f"{self._path}: its columns have different numbers of rows.")
            held.append(self._arrow.Table.from_batches([batch]))
        whole = self._arrow.concat_tables(held)
        self._rest = whole.slice(rows)
        return whole.slice(0, rows)


def _columns(
    arrow: Any, part: np.ndarray, names: tuple[str, ...], per_class: bool
) -> dict[str, Any]:
    if per_class:
        return {name: arrow.array(part[:, k]) for k, name in enumerate(names)}
    if part.ndim == 1:
        return {names[0]: arrow.array(part)}
    values = arrow.array(np.ascontiguousarray(part).ravel())
    return {names[0]: arrow.FixedSizeListArray.from_arrays(values, part.shape[1])}


def _metadata(
    metadata: dict[bytes, bytes], layout: Layout, columns_changed: bool
) -> dict[bytes, bytes]:
    """That of the file, less the lists of columns of other tools that would no longer be true."""
    outdated = (b"huggingface", b"pandas") if columns_changed else ()
    kept = {key: value for key, value in metadata.items() if key not in outdated}
    if layout.label_names is not None:
        kept.setdefault(b"label_names", json.dumps(layout.label_names).encode())
    return kept
