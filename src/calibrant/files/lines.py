"""Text files by lines, plain or gzipped, and their columns of values of unknown type."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.errors import InputError

__all__ = ["column_of_texts", "column_of_values", "numbered_lines", "text_file"]


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1; damage is told with the line where it was met."""
    number = 0
    opener: Callable[..., IO[str]] = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            for line in file:
                number += 1
                yield number, line
    except PermissionError:
        raise InputError(f"{path}: no permission to read it.") from None
    except UnicodeDecodeError:
        number = _first_damaged(path, opener)
        raise InputError(f"{path}, line {number}: not UTF-8 text; save it as UTF-8.") from None
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path}: damaged after line {number} ({error}).") from None


def _first_damaged(path: Path, opener: Callable[..., IO[Any]]) -> int:
    """The line that is not UTF-8: the decoder, which reads ahead, does not know it."""
    with opener(path, "rb") as file:
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
