"""Read the input of ``calibrant predict``: a text, or lines of text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import has_half_a_character, parse_json

__all__ = ["PREDICTED", "Row", "file_of", "read_rows", "words_of"]

Row = dict[str, Any]
PREDICTED = ("format", "entities", "abstained", "guarantee")  # Fields that are added to a line.
_WORDS = ("tokens", "words")
_CHECK = Callable[[Any, str], None]
_FILES = (".txt", ".jsonl")
# Files that are not lines of text.
_OTHER_FILES = (".csv", ".tsv", ".json", ".parquet", ".conll", ".gz", ".zip", ".pdf", ".docx")


def words_of(row: Row) -> Any:
    """Return the words of a line, or the text in which spaces separate them."""
    return next((row[name] for name in _WORDS if name in row), row.get("text"))


def read_rows(
    given: str | None, tokens: bool, written: bool, field: str | None
) -> tuple[Iterator[Row], int | None]:
    """Return the texts with the other fields of their lines, and their number if it is known."""
    check = partial(_check_row, tokens=tokens, taken=_taken(written, field))
    if given is None or given == "-":
        return _parsed_rows(sys.stdin.buffer, "standard input", None), None
    path = file_of(given)
    if path is None:
        if Path(given).suffix.lower() in (*_FILES, *_OTHER_FILES) and " " not in given:
            raise InputError(f"There is no file {given}.")
        _check_text(given, "The text that was given")
        return iter([{"text": given}]), 1
    if path.suffix.lower() in _OTHER_FILES:
        raise InputError(f"{path}: expected a .txt file with a text on each line, or .jsonl.")
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    return _file_rows(path, check), total


def file_of(given: str | None) -> Path | None:
    """Return the file that the argument names, or None if it is a text."""
    named = given is not None and len(given) < 4096 and "\n" not in given and "\0" not in given
    return path if named and (path := Path(str(given))).is_file() else None


def _file_rows(path: Path, check: _CHECK) -> Iterator[Row]:
    with path.open("rb") as file:
        lines = path.suffix.lower() == ".jsonl"
        yield from _parsed_rows(file, str(path), check if lines else None)


def _parsed_rows(file: Iterable[bytes], name: str, check: _CHECK | None) -> Iterator[Row]:
    """Yield one row per line; skip blank lines of jsonl; those of plain text are empty texts."""
    for number, raw in enumerate(file, start=1):
        where = f"{name}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(f"{where} is not UTF-8; convert it with 'iconv'.") from None
        if check is None:
            yield {"text": line}
        elif line.strip():
            yield _parsed(line, where, check)


def _parsed(line: str, where: str, check: _CHECK) -> Row:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from None
    check(row, where)
    found: Row = row
    return found


def _check_row(row: Any, where: str, *, tokens: bool, taken: Sequence[str]) -> None:
    """Require a text or words, and no field that the predictions would replace."""
    words = words_of(row) if isinstance(row, dict) and tokens else None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        _check_text(" ".join(words), where)
    else:
        text = words if tokens else row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            what = "'tokens', a list of words," if tokens else "a 'text'"
            raise InputError(f"{where}: expected an object with {what}, got {str(row)[:60]!r}.")
        _check_text(text, where)
    there = next((name for name in taken if name in row), None)
    if there is not None:
        raise InputError(
            f"{where} already has a field '{there}': name another for the predictions with "
            "--field NAME."
        )


def _taken(written: bool, field: str | None) -> Sequence[str]:
    """Return the fields of a line that hold the predictions."""
    if not written:
        return ()
    return PREDICTED if field is None else (field,)


def _check_text(text: str, where: str) -> None:
    if has_half_a_character(text):
        raise InputError(f"{where}: the text holds half of a character; is it UTF-8?")
