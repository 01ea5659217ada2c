"""Parquet: read by batches, so that memory does not grow with the file; written by row groups."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.claims import Claims
from calibrant.encoding import Dictionary
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.format import Block, Format, Layout, NewScores, Shape, other_columns
from calibrant.inputs import check_unpacked, door, first_repeated, parse_json
from calibrant.labels import decoded, is_number, lone_positive
from calibrant.predictions import Predictions

__all__ = ["PARQUET", "ParquetSource", "as_before", "dictionary_of", "table_of"]

_SCORES = ("logits", "probabilities")
_NAMES = b"label_names"  # JSON list in the metadata of the schema
_WRITE_PLAIN = "write it again without dictionary and compression"
_BUFFER = 1 << 20  # Bytes per column that are read ahead, instead of a whole row group.


class ParquetSource:
    """One parquet file."""

    @staticmethod
    def opened(path: Path, coded: Sequence[str] = ()) -> AbstractContextManager[Any]:
        """Open the file for reading; the columns ``coded`` are left as dictionaries."""
        return _opened(path, coded)

    @staticmethod
    def write_tables(tables: Iterator[Any], path: Path) -> None:
        """Write one row group per table."""
        _write_tables(tables, path)

    def __init__(self, path: Path) -> None:
        with self.opened(path) as file:
            schema = file.schema_arrow
            self._rows: int = file.metadata.num_rows
            # Repeated values are only counted, so that few bytes may mean endless rows.
            # Do not read the claims of columns: damaged ones make pyarrow end the process.
            check_unpacked(path, self._rows * len(schema), _WRITE_PLAIN)
        self._take_schema(path, schema)

    def _take_schema(self, path: Any, schema: Any) -> None:
        """Take the columns and the label names from an Arrow schema."""
        self.path = path
        columns = [(field.name, _shape(field.type)) for field in schema]
        if (twice := first_repeated(name for name, _ in columns)) is not None:
            raise InputError(f"{path}: two columns are called '{twice}'.")
        self.columns: Mapping[str, Shape] = dict(columns)
        self._metadata: dict[bytes, bytes] = schema.metadata or {}
        self._names = _label_names(path, self._metadata)

    def length(self, column: str) -> int | None:  # noqa: ARG002 - the same for all
        """Return the number of rows."""
        return self._rows

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002 - one for all
        """Return the names in the metadata of the schema."""
        return self._names

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """Yield batches of at most ``rows`` rows, for any size of row groups."""
        batches = self._batches(rows, layout, layout.names, layout.coded)
        return (block for block, _ in batches)

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write one row group per block; the new columns take the places of the old ones."""
        arrow = require("pyarrow", "files", "Writing parquet")
        batches = self._batches(new.rows, new.layout, list(filter(new.keeps, self.columns)))
        tables = (self.rewritten(*pair, new) for pair in new.mapped(batches))
        try:
            self.write_tables(tables, target)
        except arrow.ArrowException as error:
            cause = str(error).splitlines()[0]
            raise InputError(
                f"{self.path}: its columns cannot be written again ({cause})."
            ) from None

    def rewritten(self, scores: np.ndarray, batch: Any, new: NewScores) -> Any:
        """Return the table of a record batch with new scores."""
        arrow = require("pyarrow", "files", "Writing parquet")
        made, kept = _score_columns(arrow, scores, new), filter(new.keeps, self.columns)
        columns = {new.renamed.get(n, n): made.get(n, batch.column(n)) for n in kept}
        return arrow.table(columns).replace_schema_metadata(
            _rewritten_metadata(self._metadata, new)
        )

    def _batches(
        self, rows: int, layout: Layout, names: Sequence[str], coded: Sequence[str] = ()
    ) -> Iterator[tuple[Block, Any]]:
        """Yield blocks, each with a record batch of at least the columns ``names``."""
        start, read = 0, list(dict.fromkeys((*names, *layout.names)))
        with self.opened(self.path, coded) as file:
            for batch in file.iter_batches(batch_size=rows, columns=read):
                numbers = range(start, start + batch.num_rows)
                start = numbers.stop
                yield self._block(batch, numbers, layout), batch

    def _block(self, batch: Any, numbers: range, layout: Layout) -> Block:
        for name in layout.numbers:
            self._check_missing(name, batch.column(name), numbers)
        coded = {name: self._coded(name, batch.column(name)) for name in layout.coded}
        found = {name: column for name, column in coded.items() if column is not None}
        columns = {
            name: self._column(name, batch.column(name), numbers)
            for name in layout.names
            if name not in found
        }
        return Block(columns, numbers, coded=found)

    def _coded(self, name: str, column: Any) -> Dictionary | None:
        """Return a column of text as a dictionary, and None for any other."""
        with self._readable(name):
            return dictionary_of(column)

    def _column(self, name: str, column: Any, numbers: range) -> np.ndarray:
        if self.columns[name] == ():
            return self._scalars(name, column)
        if column.null_count:
            self._check_missing(name, column, numbers)
        widths = np.diff(_offsets(column))
        ragged = widths != widths[0] if len(widths) else widths
        if ragged.any():
            at = int(ragged.argmax())
            raise InputError(
                f"{self.path}: '{name}' has {widths[0]} values at row {numbers[0]} but "
                f"{widths[at]} at row {numbers[at]}; every row needs one per class."
            )
        width = int(widths[0]) if len(widths) else 0
        values = _list_values(column).to_numpy(zero_copy_only=False)
        return np.asarray(values).reshape(len(column), width)

    def _scalars(self, name: str, column: Any) -> np.ndarray:
        with self._readable(name):
            return _scalars(column)

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, OverflowError) as error:  # For instance text that is not UTF-8.
            raise InputError(
                f"{self.path}: '{name}' holds a value that cannot be read ({error}); if it is not "
                "needed, name the columns that are (--group-columns)."
            ) from None

    def _check_missing(self, name: str, column: Any, numbers: range) -> None:
        """Refuse nulls in scores, both whole rows and values within a row."""
        at = None
        if column.null_count:
            at = int(np.asarray(column.is_null()).argmax())
        elif self.columns[name] != () and _list_values(column).null_count:
            first = np.asarray(_list_values(column).is_null()).argmax()
            at = int(np.searchsorted(_offsets(column), first, side="right")) - 1
        if at is not None:
            raise InputError(f"{self.path}: a missing value in '{name}' at row {numbers[at]}.")


@contextmanager
def _opened(path: Path, coded: Sequence[str]) -> Iterator[Any]:
    """Open the file; an error of pyarrow while it is open becomes one line."""
    parquet = require("pyarrow.parquet", "files", "Reading parquet")
    # Reading ahead (pre_buffer) would keep whole row groups in memory.
    options: dict[str, Any] = {"buffer_size": _BUFFER, "pre_buffer": False}
    options |= {"page_checksum_verification": True, "read_dictionary": list(coded)}
    # The door opens first, and so closes last: closing a damaged file may fail as well.
    with (
        door(path, "not a whole parquet file; it may be truncated"),
        parquet.ParquetFile(path, **options) as file,
    ):
        try:
            yield file
        finally:  # Arrow keeps what it no longer needs, some 70 MB after ten million rows.
            require("pyarrow", "files", "Reading parquet").default_memory_pool().release_unused()


def _shape(kind: Any) -> Shape:
    types = require("pyarrow.types", "files", "Reading parquet")
    if hasattr(kind, "storage_type"):
        kind = kind.storage_type
    if types.is_fixed_size_list(kind):
        return (kind.list_size,) if _is_number(kind.value_type) else None
    if types.is_list(kind) or types.is_large_list(kind):
        return (None,) if _is_number(kind.value_type) else None
    return None if types.is_nested(kind) else ()


def _is_number(kind: Any) -> bool:
    types = require("pyarrow.types", "files", "Reading parquet")
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _offsets(column: Any) -> np.ndarray:
    """Return where the list of each row begins among all values of the column, n + 1 numbers."""
    column = getattr(column, "storage", column)
    if hasattr(column, "offsets"):
        offsets = np.asarray(column.offsets)
        return np.asarray(offsets - offsets[0])
    return np.arange(len(column) + 1) * int(column.type.list_size)


def _list_values(column: Any) -> Any:
    return getattr(column, "storage", column).flatten()


def _scalars(column: Any) -> np.ndarray:
    """Return NumPy numbers where possible, text otherwise; a missing value is ''."""
    types = require("pyarrow.types", "files", "Reading parquet")
    kind = column.type
    plain = types.is_integer(kind) or types.is_floating(kind)
    dated = types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind)
    if types.is_boolean(kind) and not column.null_count:
        return _truth_values(column)
    if dated or (plain and not column.null_count):
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        # Texts of dates are those that dates without a gap become.
        return np.where(np.isnat(values), "", values.astype(str)) if column.null_count else values
    if types.is_decimal(kind):  # As Spark and databases write numbers; 1.00 is 1 also beside gaps.
        return _scalars(column.cast("float64"))
    if (coded := dictionary_of(column)) is not None:
        texts = text_array([*(str(value) for value in coded.categories), ""])
        return np.asarray(texts[coded.codes])
    if types.is_dictionary(kind):
        return _scalars(column.dictionary_decode())
    return text_array(["" if v is None else decoded(v) for v in column.to_pylist()])


def _truth_values(column: Any) -> np.ndarray:
    """Return a column of bits as NumPy's bytes, in a tenth of the time that Arrow takes."""
    if not len(column):
        return np.zeros(0, bool)
    first, start = divmod(column.offset, 8)
    bits = np.frombuffer(column.buffers()[1], np.uint8)[first:]
    values = np.unpackbits(bits, count=start + len(column), bitorder="little")
    return values[start:].view(bool)


def dictionary_of(column: Any) -> Dictionary | None:
    """Return the distinct texts of a column and the place of each row's, or None if not text."""
    types = require("pyarrow.types", "files", "Reading parquet")
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return None
    column = column if types.is_dictionary(column.type) else column.dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    distinct = column.dictionary.to_pylist()
    return Dictionary(np.asarray(codes), ["" if value is None else value for value in distinct])


def _label_names(path: Path, metadata: Mapping[bytes, bytes]) -> tuple[str, ...] | None:
    """Return names from our own key, or from the ClassLabel of a Hugging Face dataset."""
    if _NAMES in metadata:
        with door(path, "not a whole parquet file: its label names"):
            return _texts(parse_json(metadata[_NAMES]))
    try:
        features = parse_json(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        named = [f["names"] for f in features.values() if isinstance(f, dict) and "names" in f]
        return _texts(named[0]) if len(named) == 1 else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # Metadata of other programs is no error.


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("expected a list of names")
    return tuple(str(name) for name in value)


def _write(parts: Iterator[Predictions | Claims], path: Path) -> None:
    """Write one row group per part: the scores as a column of lists, ``label``, groups, signals."""
    arrow = require("pyarrow", "files", "Writing parquet")
    _write_tables((table_of(arrow, part.numpy()) for part in parts), path, plain=_SCORES)


def _write_tables(tables: Iterator[Any], path: Path, plain: Collection[str] = ()) -> None:
    """Write one row group per table; dictionaries would not shorten the columns ``plain``."""
    parquet = require("pyarrow.parquet", "files", "Writing parquet")
    writer = None
    try:
        for table in tables:
            if writer is None:
                coded = [n for n in table.column_names if n not in plain] if plain else True
                writer = parquet.ParquetWriter(
                    path, table.schema, use_dictionary=coded, write_page_checksum=True
                )
            table = as_before(table, writer.schema)
            writer.write_table(table, row_group_size=max(1, len(table)))
    finally:
        if writer is not None:
            writer.close()


def as_before(table: Any, schema: Any) -> Any:
    """Return the table with the types of the first one; no text becomes a number.

    A column of a text file may look like numbers until a later part, where 007 is no 7.
    """
    if table.schema == schema:
        return table
    arrow = require("pyarrow", "files", "Writing parquet")
    for field in table.schema:
        known = schema.field(field.name).type if field.name in schema.names else field.type
        text_for_number = _is_number(known) and not _is_number(field.type)
        try:
            found = table[field.name] if text_for_number else table[field.name].cast(known)
        except arrow.ArrowException:
            found = table[field.name]
        if found.type != known:
            raise InputError(
                f"column '{field.name}' holds {known} in the first rows and {field.type} later, "
                "and a file has one type for all; read it whole before (calibrant.read), or write "
                "a folder of shards."
            )
    return table.cast(schema)


def table_of(arrow: Any, part: Predictions | Claims) -> Any:
    """Return the columns of predictions or claims as an Arrow table."""
    if isinstance(part, Claims):
        return arrow.table({name: arrow.array(c) for name, c in other_columns(part).items()})
    columns = {
        part.kind: _lists(arrow, part.scores),
        "label": arrow.array(part.labels),
        **{name: arrow.array(column) for name, column in other_columns(part).items()},
    }
    names = {} if part.label_names is None else {_NAMES: json.dumps(part.label_names)}
    return arrow.table(columns).replace_schema_metadata(names)


def _score_columns(arrow: Any, scores: np.ndarray, new: NewScores) -> dict[str, Any]:
    """Return the new column of each old column of scores."""
    old = new.layout.scores
    if new.layout.per_class:
        return {name: arrow.array(scores[:, k]) for k, name in enumerate(old)}
    if scores.ndim == 1:
        return {old[0]: arrow.array(scores)}
    return {old[0]: _lists(arrow, scores)}


def _lists(arrow: Any, scores: np.ndarray) -> Any:
    values = arrow.array(np.ascontiguousarray(scores).ravel())
    return arrow.FixedSizeListArray.from_arrays(values, scores.shape[1])


def _rewritten_metadata(metadata: Mapping[bytes, bytes], new: NewScores) -> dict[bytes, bytes]:
    """Drop other tools' lists of columns where they would no longer be true."""
    changed = set(new.names) - set(new.layout.scores)
    outdated = (b"huggingface", b"pandas") if changed else ()
    kept = {key: value for key, value in metadata.items() if key not in outdated}
    positive = lone_positive(new.layout.label_names)
    # Labels that are numbers stay as they are: with the names they would be read as class numbers.
    if new.layout.label_names is not None and not (positive is not None and is_number(positive)):
        kept.setdefault(_NAMES, json.dumps(new.layout.label_names).encode())
    return kept


PARQUET = Format((".parquet",), ParquetSource, _write, shards=True)
