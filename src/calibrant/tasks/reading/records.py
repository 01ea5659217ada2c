"""Records of text files: jsonl, csv and tsv, plain or gzipped, each with its line number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.lines import csv_delimiter, csv_header, csv_records, json_records
from calibrant.inputs import check_file, shortened

__all__ = ["SUFFIXES", "TEXTS", "field", "read_records"]

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXTS = ("text", "sentence", "content")  # What a text may be called.


def read_records(
    path: Path, suffix: str | None = None, columns: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the record of each line; skip blank lines.

    ``suffix`` gives the format if the name does not: .jsonl, .csv or .tsv. ``columns`` has the
    lower-case names that each wanted column may have: a table whose first line has none of all
    these names is refused, as its first line is data.
    """
    name = (suffix or path.name).lower()
    check_file(path)
    if ".jsonl" in name:
        return json_records(path, as_text=True)
    return _table(path, "\t" if ".tsv" in name else csv_delimiter(path), columns)


def field(record: dict[str, Any], names: Sequence[str], where: str) -> Any:
    """Return the value under the first of ``names`` that the record has.

    >>> field({"sentence": "Hello"}, ("text", "sentence"), "news.jsonl, line 1")
    'Hello'
    """
    name = next((name for name in names if name in record), None)
    if name is None:
        has = ", ".join(record) or "nothing"
        raise InputError(f"{where}: expected '{names[0]}', got {has}.")
    return record[name]


def _table(
    path: Path, separator: str, columns: Sequence[Sequence[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    _, header = csv_header(path, separator)
    _check_names(path, header, columns)
    for number, row in csv_records(path, header, separator, exact=True):
        yield number, dict(zip(header, row, strict=True))


def _check_names(path: Path, header: Sequence[str], columns: Sequence[Sequence[str]]) -> None:
    known = {name for names in columns for name in names}
    if not columns or not header or known & {name.strip().lower() for name in header}:
        return
    *first, last = (f"'{names[0]}'" for names in columns)
    shown = ", ".join(repr(shortened(name)) for name in header[:3])
    raise InputError(
        f"{path}: the first line names no column {', '.join(first)} or {last}, it has {shown}. If "
        "it is data, put a line with these names above it, each in its place; else rename the "
        "columns."
    )
