"""Read csv and jsonl with pyarrow if it is installed: same records as the plain readers, faster.

Arrow reads well-formed records. It stops at anything else: a cell that is not a number, a record of
another length or type, a missing key, damage. The plain reader continues from there. It accepts
more ways to write a value, and its errors name the row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np

from calibrant.arrays import text_array
from calibrant.files.format import Block, Layout
from calibrant.files.lines import UNPACK, column_of_texts, is_gzipped
from calibrant.inputs import check_unpacked

__all__ = ["arrow_csv_blocks", "arrow_jsonl_blocks"]

# Yields blocks; returns how many records they hold, or None where these were all.
Blocks: TypeAlias = Generator[Block, None, int | None]
Lines: TypeAlias = Callable[[], Iterator[int]]
Columns: TypeAlias = dict[str, np.ndarray]

_BYTES = 1 << 22  # Read at once.
_RETURN, _BREAK, _OPENING, _CLOSING = b"\r\n{}"


class _OddError(Exception):
    """Something that only the plain reader understands."""


def arrow_csv_blocks(
    path: Path,
    header: Sequence[str],
    header_line: int,
    layout: Layout,
    rows: int,
    lines: Lines,
    delimiter: str = ",",
) -> Blocks:
    """Yield ``rows`` records at a time. ``lines`` gives the line of each record."""

    def columns(table: Any) -> Columns:
        found = {name: table[name].to_numpy() for name in layout.numbers}
        for name in _others(layout):
            make = text_array if name == layout.label else column_of_texts
            found[name] = _texts(table[name], make, spaced=False)
        return found

    def batches() -> Iterator[Any]:
        return _csv_batches(path, header, layout, header_line, delimiter)

    return (yield from _blocks(batches, columns, rows, lines))


def arrow_jsonl_blocks(
    path: Path, first: Mapping[str, Any], layout: Layout, rows: int, lines: Lines
) -> Blocks:
    """Yield ``rows`` records at a time; ``first`` is the first of them, which shows the types."""

    def columns(table: Any) -> Columns:
        found = {name: _scores(table[name], first[name]) for name in layout.numbers}
        return found | {name: _values(table[name]) for name in _others(layout)}

    def batches() -> Iterator[Any]:
        return _json_batches(path, first, layout)

    return (yield from _blocks(batches, columns, rows, lines))


def _others(layout: Layout) -> list[str]:
    """Return label and groups; in a file without labels, a column of scores is the label."""
    numbers = set(layout.numbers)
    return [name for name in layout.names if name not in numbers]


def _blocks(
    batches: Callable[[], Iterator[Any]],
    columns: Callable[[Any], Columns],
    rows: int,
    lines: Lines,
) -> Blocks:
    if find_spec("pyarrow") is None:
        return 0
    import pyarrow

    done = 0
    try:
        for table in _tables(batches(), rows):
            yield Block(columns(table), _Numbers(lines, done, len(table)), "line")
            done += len(table)
    except (pyarrow.ArrowException, OSError, UnicodeError, _OddError):
        return done
    return None


def _tables(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield the same records in tables of ``rows``."""
    import pyarrow

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= rows:
            table = pyarrow.Table.from_batches(waiting)
            yield table[:rows]
            waiting = table[rows:].to_batches()
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def _open(path: Path) -> Any:
    """Open the unpacked bytes; Arrow's threads may outlive the interpreter and its files."""
    import pyarrow

    return pyarrow.input_stream(str(path), compression="gzip" if is_gzipped(path) else None)


class _Watch:
    """Reads a file once more beside Arrow, to see what Arrow ignores."""

    def __init__(self, path: Path, size: int = _BYTES) -> None:
        self.path, self.lines = path, 0
        self._source, self._size, self._count = _open(path), size, 0
        self._unfinished = False  # Whether the last line has no end.

    def reach(self, lines: int) -> None:
        """Read on to this many lines, or to the end."""
        while self.lines < lines and self._read():
            pass

    def finish(self) -> int:
        """Read to the end; return the number of lines."""
        while self._read():
            pass
        return self.lines + self._unfinished

    def _read(self) -> bool:
        data: bytes = self._source.read(self._size)
        self._count += len(data)
        if is_gzipped(self.path):
            check_unpacked(self.path, self._count, UNPACK)
        self.watch(data)
        return bool(data)

    def watch(self, data: bytes) -> None:
        """Count the lines."""
        self.lines += data.count(b"\n")
        if data:
            self._unfinished = not data.endswith(b"\n")


class _ObjectPerLine(_Watch):
    """Checks that each line of a jsonl file is one object: Arrow accepts two, or half of one.

    Where every line begins with a brace and ends with one, no object goes over a line's end; so as
    many objects as lines mean one on each.
    """

    _last = b"}\n"  # The two bytes before; as if a line had ended.

    def watch(self, data: bytes) -> None:
        """Count the lines; raise an error where one begins or ends without a brace."""
        whole = np.frombuffer(self._last + data, np.uint8)
        breaks = np.flatnonzero(whole[1:] == _BREAK) + 1
        begins = whole[breaks[breaks + 1 < len(whole)] + 1]
        new = breaks[breaks > 1]  # The end before an older one has been looked at.
        ends = np.where(whole[new - 1] == _RETURN, whole[new - 2], whole[new - 1])
        if (begins != _OPENING).any() or (ends != _CLOSING).any():
            raise _OddError
        self.lines += len(begins)
        self._last = (self._last + data[-2:])[-2:]


def _csv_batches(
    path: Path, header: Sequence[str], layout: Layout, above: int, delimiter: str
) -> Iterator[Any]:
    """Yield the records below line ``above``: scores as float64, all else as text."""
    import pyarrow
    from pyarrow import csv

    types = {name: pyarrow.string() for name in layout.names}
    types |= {name: pyarrow.float64() for name in layout.numbers}
    read = csv.ReadOptions(column_names=list(header), skip_rows=above, block_size=_BYTES)
    convert = csv.ConvertOptions(
        column_types=types,
        include_columns=list(layout.names),
        null_values=[],
        strings_can_be_null=False,
    )
    parse = csv.ParseOptions(newlines_in_values=True, delimiter=delimiter)
    count, watch = 0, _Watch(path)
    with _open(path) as file, csv.open_csv(file, read, parse, convert) as reader:
        for batch in reader:
            count += len(batch)
            watch.reach(count)
            yield batch
    if (
        count != watch.finish() - above
    ):  # A quoted cell of several lines, or one that is not closed.
        raise _OddError


def _json_batches(path: Path, first: Mapping[str, Any], layout: Layout) -> Iterator[Any]:
    """Yield scores as float64, all else of the type that it has in the first record."""
    import pyarrow
    from pyarrow import json

    if not hasattr(json, "open_json"):
        raise _OddError  # A pyarrow that reads jsonl only as a whole.
    number = pyarrow.float64()
    types: dict[type, Any] = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        bool: pyarrow.bool_(),
        float: number,
        list: pyarrow.list_(number),
    }

    numbers = set(layout.numbers)

    def kind(name: str) -> Any:
        value = first[name]
        if name in numbers:
            if isinstance(value, dict):
                return pyarrow.struct([(key, number) for key in value])
            return types[list] if isinstance(value, list) else number
        if type(value) not in (str, int, bool):  # 1 beside 2.5 would be text to the plain reader.
            raise _OddError
        return types[type(value)]

    schema = pyarrow.schema([(name, kind(name)) for name in layout.names])
    parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    count, watch = 0, _ObjectPerLine(path)
    with _open(path) as file:
        for batch in json.open_json(file, json.ReadOptions(block_size=_BYTES), parse):
            count += len(batch)
            watch.reach(count)
            yield batch
    if count != watch.finish():
        raise _OddError


def _texts(
    column: Any, make: Callable[[Sequence[str]], np.ndarray], *, spaced: bool = True
) -> np.ndarray:
    """Return a column of texts; each distinct one is converted once.

    Unless texts may be ``spaced``, one that begins with a space is for the plain reader, which
    knows whether the space stands in quotes.
    """
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if not spaced and any(text.startswith(" ") for text in texts if text is not None):
        raise _OddError
    return np.asarray(make(texts)[encoded.indices.to_numpy()])


def _values(column: Any) -> np.ndarray:
    """Return texts, whole numbers or truth values; missing ones are for the plain reader."""
    import pyarrow

    if column.null_count:
        raise _OddError
    if column.type == pyarrow.string():
        return _texts(column, text_array)
    return np.asarray(column.to_numpy())


def _scores(column: Any, first: Any) -> np.ndarray:
    """Return numbers of shape (n,) or (n, K); other lengths are for the plain reader."""
    array = column.combine_chunks()
    if array.null_count:
        raise _OddError
    if isinstance(first, dict):
        if array.type.num_fields != len(first):
            raise _OddError
        return np.stack([_numbers(part) for part in array.flatten()], axis=1)
    if isinstance(first, list):
        if (np.diff(array.offsets.to_numpy()) != len(first)).any():
            raise _OddError
        return _numbers(array.flatten()).reshape(len(array), len(first))
    return _numbers(array)


def _numbers(array: Any) -> np.ndarray:
    numbers = np.asarray(array.to_numpy(zero_copy_only=False))
    # Nothing is missing (NaN), and no integer is longer than NumPy's.
    if not (np.abs(numbers) < 2.0**63).all():
        raise _OddError
    return numbers


class _Numbers(Sequence[int]):
    """The lines of some records, found by reading again: only an error needs them."""

    def __init__(self, lines: Lines, start: int, length: int) -> None:
        self._lines, self._start, self._length = lines, start, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        place = self._start + range(self._length)[index]
        return next(islice(self._lines(), place, None))
