"""Records of text files: jsonl, csv and tsv, plain or gzipped, each with its line number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.lines import csv_records, numbered_lines
from calibrant.inputs import check_file, first_repeated, has_half_a_character, parse_json

__all__ = ["SUFFIXES", "TEXTS", "field", "read_records"]

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXTS = ("text", "sentence", "content")  # What a text may be called.


def read_records(path: Path, suffix: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and record of each; blank lines are left out.

    ``suffix`` says what the file is where its name does not: .jsonl, .csv or .tsv.
    """
    name = (suffix or path.name).lower()
    check_file(path)
    if ".jsonl" in name:
        return _json(path)
    return _table(path, "\t" if ".tsv" in name else ",")


def field(record: dict[str, Any], names: Sequence[str], where: str) -> Any:
    """The value under the first of ``names`` that the record has.

    >>> field({"sentence": "Hello"}, ("text", "sentence"), "news.jsonl, line 1")
    'Hello'
    """
    name = next((name for name in names if name in record), None)
    if name is None:
        has = ", ".join(record) or "nothing"
        raise InputError(f"{where}: expected '{names[0]}', got {has}.")
    return record[name]


def _json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            try:
                record = parse_json(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: no JSON ({error}).") from None
            if not isinstance(record, dict):
                raise InputError(
                    f"{path}, line {number}: expected an object in braces, got {line.strip()[:40]}."
                )
            if "\\ud" in line.lower() and has_half_a_character(record):
                raise InputError(f"{path}, line {number}: it holds half of a character.")
            yield number, record


def _table(path: Path, separator: str) -> Iterator[tuple[int, dict[str, Any]]]:
    records = csv_records(path, separator)
    first, header = next(records, (1, []))
    if (twice := first_repeated(header)) is not None:
        raise InputError(
            f"{path}, line {first}: two columns are called '{twice}'; name them apart."
        )
    for number, row in records:
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: {len(row)} values, but the header has {len(header)}; "
                "text with a separator in it needs quotes."
            )
        yield number, dict(zip(header, row, strict=True))
