"""A parquet file, and what a table that it belongs to says about its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from calibrant.distributed.engine import Rows
from calibrant.errors import InputError
from calibrant.extras import require

__all__ = ["Added", "DataFile", "with_added"]

# Columns of one value: name, value, Arrow type. Files of a partition lack those it is named by.
Added: TypeAlias = tuple[tuple[str, Any, Any], ...]


@dataclass(frozen=True)
class DataFile:
    """A parquet file; one that belongs to no table is its path alone."""

    path: str
    added: Added = ()
    # The number and the name of each column of an Iceberg table, in which columns change names.
    columns: tuple[tuple[int, str], ...] = ()

    def schema(self, of_file: Any) -> Any:
        """Return the Arrow schema of the rows; check that the file is as its table is now."""
        self._check_columns(of_file)
        for name, _, kind in self.added:
            of_file = of_file.append(require("pyarrow", "files", "A table").field(name, kind))
        return of_file

    def _check_columns(self, schema: Any) -> None:
        numbers = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
        if not self.columns or not any(numbers):  # Files that others wrote have only names.
            return
        found = {(int(n or -1), f.name) for n, f in zip(numbers, schema, strict=True)}
        if found != {*self.columns}:
            raise InputError(
                f"{self.path}: its columns ({', '.join(schema.names)}) are not those of its "
                f"table now ({', '.join(name for _, name in self.columns)}): rewrite its files, or "
                "read the table as a DataFrame of Spark."
            )


def with_added(rows: Rows, added: Added, columns: Sequence[str] | None) -> Rows:
    """Append the columns of one value that are asked for."""
    if not added:
        return rows
    arrow = require("pyarrow", "files", "A table")
    batch = rows.batch
    for name, value, kind in added:
        if columns is None or name in columns:
            one = arrow.repeat(arrow.scalar(value, kind), batch.num_rows)
            batch = batch.append_column(name, one)
    return replace(rows, batch=batch)
