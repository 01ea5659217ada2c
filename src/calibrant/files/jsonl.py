"""jsonl: one JSON object per line; gzipped or not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.arrow_text import quick_jsonl_blocks
from calibrant.files.lines import column_of_values, numbered_lines, text_file
from calibrant.files.source import Block, Layout, Shape
from calibrant.inputs import parse_json
from calibrant.predictions import Predictions

__all__ = ["JsonlSource", "json_records", "write_jsonl"]


def json_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line; empty lines are left out."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}: no JSON at line {number} ({error}).") from None
        if not isinstance(record, dict):
            raise InputError(
                f"{path}: expected a JSON object at line {number}, got {type(record).__name__}."
            )
        yield number, record


class JsonlSource:
    """One jsonl file, whose columns are the keys of its first line.

    Scores are a list, an object with one number per label name, or one key per class.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _, self._first = next(json_records(path), (0, {}))
        self.columns: Mapping[str, Shape] = {k: _shape(v) for k, v in self._first.items()}

    def length(self, column: str) -> int | None:  # noqa: ARG002
        """Not known before the file is read."""
        return None

    def label_names(self, scores: str) -> tuple[str, ...] | None:
        """The keys, where the scores of a line are an object."""
        value = self._first[scores]
        return tuple(value) if isinstance(value, dict) else None

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """``rows`` lines at a time, by pyarrow as far as it goes."""
        done = yield from quick_jsonl_blocks(self.path, self._first, layout, rows, self._lines)
        if done is not None:
            yield from self._plain_blocks(rows, layout, done)

    def _plain_blocks(self, rows: int, layout: Layout, done: int) -> Iterator[Block]:
        records: list[dict[str, Any]] = []
        lines: list[int] = []
        for line, record in islice(json_records(self.path), done, None):
            records.append(record)
            lines.append(line)
            if len(records) == rows:
                yield self._block(records, lines, layout)
                records, lines = [], []
        if records:
            yield self._block(records, lines, layout)

    def _lines(self) -> Iterator[int]:
        return (line for line, _ in json_records(self.path))

    def _block(self, records: list[dict[str, Any]], lines: list[int], layout: Layout) -> Block:
        columns = {
            name: column_of_values([record.get(name) for record in records])
            for name in (layout.label, *layout.groups)
        }
        for name in layout.scores:
            columns[name] = self._numbers(name, [record.get(name) for record in records], lines)
        return Block(columns, lines, "line")

    def _numbers(self, name: str, values: list[Any], lines: Sequence[int]) -> np.ndarray:
        """A column of numbers, of shape (n,) or (n, K)."""
        shape, keys = self.columns[name], self.label_names(name)
        if keys is not None:
            wanted = set(keys)
            for i, value in enumerate(values):
                if not isinstance(value, dict) or value.keys() != wanted:
                    raise self._wrong(name, f"the {len(keys)} names of the first line", lines[i])
            values = [[value[key] for key in keys] for value in values]
        try:
            numbers = np.array(values)
        except (ValueError, OverflowError):  # lists of different lengths, or of different depths
            numbers = np.empty((), object)
        if numbers.dtype.kind in "fiu" and numbers.shape == (len(values), *(shape or ())):
            return numbers
        return self._one_by_one(name, values, lines)

    def _one_by_one(self, name: str, values: list[Any], lines: Sequence[int]) -> np.ndarray:
        """The same where NumPy has no type for all: integers of many digits among the numbers."""
        shape = self.columns[name]
        expected = f"a list of {shape[0]} numbers" if shape else "a number"
        for value, line in zip(values, lines, strict=True):
            if _shape(value) != shape or shape is None or (shape == () and _odd(value)):
                raise self._wrong(name, expected, line)
        try:
            return np.array([_floats(value) for value in values])
        except OverflowError:
            at = next(i for i, value in enumerate(values) if not _fits(value))
            raise self._wrong(name, f"{expected} below 1e308", lines[at]) from None

    def _wrong(self, name: str, expected: str, line: int) -> InputError:
        return InputError(f"{self.path}: expected {expected} in '{name}' at line {line}.")


def _shape(value: Any) -> Shape:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return (len(value),) if value and not any(map(_odd, value)) else None
    return ()


def _odd(value: Any) -> bool:
    """Whether it is no number."""
    return isinstance(value, bool) or not isinstance(value, (int, float))


def _floats(value: Any) -> Any:
    return [float(number) for number in value] if isinstance(value, list) else float(value)


def _fits(value: Any) -> bool:
    try:
        _floats(value)
    except OverflowError:
        return False
    return True


def write_jsonl(parts: Iterator[Predictions], path: Path, *, compressed: bool) -> None:
    """Scores as an object and the label as text where names are known; list and number if not."""
    with text_file(path, compressed) as file:
        for part in parts:
            part = part.numpy()
            names = part.label_names
            groups = {name: column.tolist() for name, column in part.groups.items()}
            for i, (scores, label) in enumerate(
                zip(part.scores.tolist(), part.labels.tolist(), strict=True)
            ):
                record = {
                    part.kind: scores if names is None else dict(zip(names, scores, strict=True)),
                    "label": label if names is None else names[label],
                    **{name: column[i] for name, column in groups.items()},
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
