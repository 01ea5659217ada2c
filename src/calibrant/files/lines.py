"""Text files by lines and records, plain or gzipped, and their columns of unknown type."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np

from calibrant.arrays import text_array
from calibrant.errors import InputError
from calibrant.files.format import Block, Layout, NewScores, Shape
from calibrant.inputs import (
    LONGEST_LINE,
    check_file,
    check_unpacked,
    door,
    first_repeated,
    has_half_a_character,
    parse_json,
    shortened,
)

__all__ = [
    "UNPACK",
    "CsvWriter",
    "TextSource",
    "allow_long_cells",
    "column_of_texts",
    "column_of_values",
    "csv_delimiter",
    "csv_header",
    "csv_records",
    "is_gzipped",
    "json_records",
    "numbered_lines",
    "table_records",
    "text_file",
]

_Record = TypeVar("_Record")
UNPACK = "unpack it first (gunzip)"  # What to do with a gzipped file that is refused.


class TextSource(ABC, Generic[_Record]):
    """One text file of records: pyarrow reads it as far as it goes, then record by record."""

    path: Path
    columns: Mapping[str, Shape]

    @abstractmethod
    def records(self) -> Iterator[tuple[int, _Record]]:
        """Yield the line and the values of each record."""

    @abstractmethod
    def block(self, records: Sequence[_Record], lines: Sequence[int], layout: Layout) -> Block:
        """Return some records as columns."""

    @abstractmethod
    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Yield blocks by pyarrow; return how many records they hold, or None for all."""

    def length(self, column: str) -> int | None:  # noqa: ARG002
        """Return None: the number of rows is not known before the file is read."""
        return None

    @abstractmethod
    def label_names(self, scores: str) -> tuple[str, ...] | None:
        """Return the names of the classes of the column ``scores``, if the file has them."""

    @abstractmethod
    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write the file again with other scores; all other columns and all rows stay."""

    def lines(self) -> Iterator[int]:
        """Yield the line of each record."""
        return (line for line, _ in self.records())

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """Yield ``rows`` records at a time."""
        done = yield from self.arrow_blocks(rows, layout)
        if done is not None:
            yield from self.plain_blocks(rows, layout, done)

    def plain_blocks(self, rows: int, layout: Layout, done: int) -> Iterator[Block]:
        """Yield the blocks after ``done`` records, read without pyarrow."""
        records: list[_Record] = []
        lines: list[int] = []
        for line, record in islice(self.records(), done, None):
            records.append(record)
            lines.append(line)
            if len(records) == rows:
                yield self.block(records, lines, layout)
                records, lines = [], []
        if records:
            yield self.block(records, lines, layout)

    def rewritten(self, new: NewScores) -> Iterator[tuple[_Record, Any]]:
        """Yield each record with its new scores, a list or a number."""
        records = (record for _, record in self.records())
        for part in new.parts(self):
            yield from zip(islice(records, len(part)), part.tolist(), strict=True)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers from 1; an error names the line of the damage."""
    check_file(path)
    number = 0
    with door(path, "not a whole text file"):
        try:
            with _opened(path) as file:
                while line := file.readline(LONGEST_LINE + 1):
                    number += 1
                    if len(line) > LONGEST_LINE:
                        raise InputError(
                            f"{path}: line {number} has more than {LONGEST_LINE:,} characters."
                        )
                    yield number, line
        except UnicodeDecodeError:
            number = _first_damaged(path)
            raise InputError(
                f"{path}, line {number}: not UTF-8 text; save it as UTF-8 (in Excel: 'CSV UTF-8')."
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path}: damaged after line {number} ({error}).") from None


def csv_delimiter(path: Path) -> str:
    """Return the semicolon if the first line has some and no comma, as spreadsheets write it."""
    _, first = next(numbered_lines(path), (0, ""))
    return ";" if ";" in first and "," not in first else ","


def csv_header(path: Path, delimiter: str = ",") -> tuple[int, list[str]]:
    """Return the line and the cells of the first record, which are the names of the columns."""
    line, header = next(_csv_records(path, delimiter), (0, []))
    if (twice := first_repeated(header)) is not None:
        raise InputError(
            f"{path}, line {line}: two columns are called '{twice}'; give them different names."
        )
    return line, header


def csv_records(
    path: Path, header: Sized, delimiter: str = ",", *, exact: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line's number and the cells of each record below the header.

    ``exact``: as :func:`table_records`.
    """
    for line, record in islice(_csv_records(path, delimiter, exact=exact), 1, None):
        if len(record) != len(header):
            raise InputError(
                f"{path}, line {line}: {len(record)} values, but the header has {len(header)}; "
                "text with a separator in it needs quotes."
            )
        yield line, record


def allow_long_cells() -> None:
    """Raise Python's own limit of 131,072 characters: a cell may hold a document."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))


def _csv_records(
    path: Path, delimiter: str, *, exact: bool = False
) -> Iterator[tuple[int, list[str]]]:
    # A space after a comma belongs to no value: ", cat" is the label cat, unless it is in quotes.
    return table_records(path, delimiter, skipinitialspace=True, exact=exact)


def table_records(
    path: Path, delimiter: str, *, skipinitialspace: bool = False, exact: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line's number and the cells of each record, the header first.

    A quote that begins a cell and is not closed takes the next rows into the cell: an error. So is
    with ``exact`` a cell such as ``"Great" film``, whose quotes would be lost: who reads texts
    needs every character of them.
    """
    allow_long_cells()
    lines: list[str] = []  # Of one record: the reader takes no line before it needs it.
    options: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": skipinitialspace}

    def recorded() -> Iterator[str]:
        for _, line in numbered_lines(path):
            lines.append(line)
            yield line

    reader = csv.reader(recorded(), **options)
    try:
        for record in reader:
            if len(lines) > 1 and not _closes_quotes(lines, record, options):
                first = reader.line_num - len(lines) + 1
                raise InputError(
                    f"{path}, line {first}: a quote begins a cell and is not closed there, so that "
                    "the next rows would be in the cell; put cells with quotes in quotes, and "
                    "double those inside."
                )
            if exact and len(lines) == 1 and _loses_quotes(lines[0], options):
                raise InputError(
                    f"{path}, line {reader.line_num}: a cell begins with a quote and does not end "
                    "with it, so that quotes would be lost; put cells with quotes in quotes, and "
                    "double those inside."
                )
            lines.clear()
            if record:  # An empty line has none.
                yield reader.line_num, record
    except csv.Error as error:
        raise InputError(f"{path}: {error} at line {reader.line_num}.") from None


def _closes_quotes(lines: list[str], record: list[str], options: Mapping[str, Any]) -> bool:
    """Return whether the lines of one record are a row in which every quoted cell is closed.

    A cell with a tab and a line break, in a table of tabs, is more than one row.
    """
    try:
        next(csv.reader(lines, strict=True, **options))
    except csv.Error:
        return False
    tabs = options["delimiter"] == "\t"
    return not any(tabs and "\t" in cell and ("\n" in cell or "\r" in cell) for cell in record)


def _loses_quotes(line: str, options: Mapping[str, Any]) -> bool:
    """Return whether a cell begins with a quote and does not end with it, spaces aside.

    >>> _loses_quotes('"Great" film,good', {}), _loses_quotes('"Great film" , good', {})
    (True, False)
    """
    if '"' not in line:
        return False
    delimiter = options.get("delimiter", ",")
    without = re.sub(rf'"[ ]+(?={re.escape(delimiter)}|[\r\n]*\Z)', '"', line)
    try:
        next(csv.reader([without], strict=True, **options))
    except csv.Error:
        return True
    return False


def json_records(
    path: Path, *, as_text: bool = False, lists: bool = False
) -> Iterator[tuple[int, Any]]:
    """Yield number and object of each line, without empty lines; with ``lists`` also lists.

    ``as_text`` refuses lone surrogates, which no encoding and no tokenizer accepts.
    """
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}).") from None
        if not isinstance(record, (dict, list) if lists else dict):
            got = shortened(line.strip(), 40)
            raise InputError(f"{path}, line {number}: expected a JSON object, got {got}.")
        if as_text and "\\ud" in line.lower() and has_half_a_character(record):
            raise InputError(f"{path}, line {number}: it contains half of a character.")
        yield number, record


def is_gzipped(path: Path) -> bool:
    """Return whether the name ends in .gz."""
    return path.suffix.lower() == ".gz"


def _opened(path: Path) -> IO[str]:
    if not is_gzipped(path):
        return path.open(encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(_Unpacked(path), encoding="utf-8-sig", newline="")


class _Unpacked(gzip.GzipFile):
    """A gzipped file that ends with an error where it unpacks to far more than its size."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        check_unpacked(self._path, self.tell(), UNPACK)
        return data


def _first_damaged(path: Path) -> int:
    """Return the line that is not UTF-8: the decoder reads ahead and does not know it."""
    number = 0
    with gzip.open(path, "rb") if is_gzipped(path) else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return number


@contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file to write, gzipped if its name says so.

    gzip's date and name stay empty, so that equal content has equal bytes.
    """
    with path.open("wb") as raw:
        binary: Any = raw
        if is_gzipped(path):
            binary = gzip.GzipFile("", "wb", compresslevel=3, fileobj=raw, mtime=0)
        with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
            yield text


class CsvWriter:
    r"""Write rows that :func:`csv_records` reads back as they are, each ended by a line feed.

    ``csv.writer`` leaves a carriage return bare, which ends a row, and a space at the beginning of
    a cell, which belongs to no value: the texts of such rows are put in quotes.

    >>> import sys
    >>> CsvWriter(sys.stdout).writerows([("id", "text"), (1, "a cat"), (2, " cat")])
    id,text
    1,a cat
    2," cat"
    """

    def __init__(self, file: IO[str], delimiter: str = ",") -> None:
        options: dict[str, Any] = {"delimiter": delimiter, "lineterminator": "\n"}
        self._plain = csv.writer(file, **options)
        self._quoted = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, **options)

    def writerow(self, row: Iterable[Any]) -> None:
        """Write one row."""
        row = list(row)
        (self._quoted if any(map(_needs_quotes, row)) else self._plain).writerow(row)

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write several rows."""
        for row in rows:
            self.writerow(row)


def _needs_quotes(cell: Any) -> bool:
    return isinstance(cell, str) and (cell[:1] == " " or "\r" in cell)


def column_of_texts(texts: Sequence[str]) -> np.ndarray:
    """Return numbers where every text is one as Python writes it, text otherwise.

    ``007`` stays text, so that nothing is lost where only some chunks of a file look like numbers.

    >>> column_of_texts(["1", "2"]), column_of_texts(["1", "007"])
    (array([1, 2]), array(['1', '007'], dtype='<U3'))
    """
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        try:
            numbers = [kind(text) for text in texts]
            if all(str(number) == text for number, text in zip(numbers, texts, strict=True)):
                return np.array(numbers, dtype)
        except (ValueError, OverflowError):
            pass
    return text_array(texts)


def column_of_values(values: Sequence[Any]) -> np.ndarray:
    """Return values of one type as they are, others as text; a missing value is ''.

    >>> column_of_values([1, 2]), column_of_values([1, "a", None])
    (array([1, 2]), array(['1', 'a', ''], dtype='<U1'))
    """
    kinds = set(map(type, values))
    if kinds == {str}:
        return text_array(values)
    if kinds in ({int}, {float}, {bool}):
        try:
            return np.array(values, {int: np.int64, float: np.float64, bool: bool}[kinds.pop()])
        except OverflowError:
            pass
    return text_array(["" if value is None else str(value) for value in values])
