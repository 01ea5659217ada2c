"""jsonl: one JSON object per line; gzipped or not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.lines import column_of_values, numbered_lines, text_file
from calibrant.files.quick_text import quick_jsonl_blocks
from calibrant.files.source import Block, Layout, Shape
from calibrant.predictions import Predictions

__all__ = ["JsonlSource", "write_jsonl"]


class JsonlSource:
    """One jsonl file, whose columns are the keys of its first line.

    Scores are a list, an object with one number per label name, or one key per class.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _, self._first = next(self._records(), (0, {}))
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
        for line, record in islice(self._records(), done, None):
            records.append(record)
            lines.append(line)
            if len(records) == rows:
                yield self._block(records, lines, layout)
                records, lines = [], []
        if records:
            yield self._block(records, lines, layout)

    def _lines(self) -> Iterator[int]:
        return (line for line, _ in self._records())

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line number and object; empty lines are left out."""
        for number, line in numbered_lines(self.path):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{self.path}: no JSON at line {number} ({error}).") from None
            if not isinstance(record, dict):
                raise InputError(
                    f"{self.path}: expected a JSON object at line {number}, "
                    f"got {type(record).__name__}."
                )
            yield number, record

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
        except ValueError:  # lists of different lengths
            numbers = np.empty((), object)
        if numbers.dtype.kind in "fiu" and numbers.shape == (len(values), *(shape or ())):
            return numbers
        at = next(i for i, value in enumerate(values) if _shape(value) != shape or _odd(value))
        expected = f"a list of {shape[0]} numbers" if shape else "a number"
        raise self._wrong(name, expected, lines[at])

    def _wrong(self, name: str, expected: str, line: int) -> InputError:
        return InputError(f"{self.path}: expected {expected} in '{name}' at line {line}.")


def _shape(value: Any) -> Shape:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return (len(value),) if value and not any(map(_odd, value)) else None
    return ()


def _odd(value: Any) -> bool:
    """Whether it is neither a number nor a list, which has been looked into."""
    return isinstance(value, bool) or not isinstance(value, (int, float, list, dict))


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
