"""Text files by lines, plain or gzipped, and their columns of values of unknown type."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.errors import InputError
from calibrant.inputs import LONGEST_LINE, check_file, check_unpacked, door

__all__ = [
    "UNPACK",
    "column_of_texts",
    "column_of_values",
    "csv_records",
    "is_gzipped",
    "numbered_lines",
    "text_file",
]

UNPACK = "unpack it first (gunzip)"  # What to do with a gzipped file that is refused.


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1; damage is told with the line where it was met."""
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
            raise InputError(f"{path}, line {number}: not UTF-8 text; save it as UTF-8.") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path}: damaged after line {number} ({error}).") from None


def csv_records(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The number of its last line and the cells of each record; empty lines are left out."""
    # Python's own limit of 131,072 characters is short for a cell that holds a document.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader((line for _, line in numbered_lines(path)), delimiter=delimiter)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error as error:
        raise InputError(f"{path}: {error} at line {reader.line_num}.") from None


def is_gzipped(path: Path) -> bool:
    """Whether the name says so."""
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
    """The line that is not UTF-8: the decoder, which reads ahead, does not know it."""
    number = 0
    with gzip.open(path, "rb") if is_gzipped(path) else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return number


@contextmanager
def text_file(path: Path, compressed: bool) -> Iterator[IO[str]]:
    """A text file to write; gzip's date and name stay empty, so equal content is equal bytes."""
    with path.open("wb") as raw:
        binary: Any = raw
        if compressed:
            binary = gzip.GzipFile("", "wb", compresslevel=3, fileobj=raw, mtime=0)
        with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
            yield text


def column_of_texts(texts: Sequence[str]) -> np.ndarray:
    """Numbers where every text is one as Python writes it, text otherwise.

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
    """Values of one type as they are; of several, or with some missing, as text ('' is missing).

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
