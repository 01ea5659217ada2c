"""jsonl: one JSON object per line; gzipped or not."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.arrow_text import arrow_jsonl_blocks
from calibrant.files.format import Block, Format, Layout, NewScores, Shape, other_columns
from calibrant.files.lines import TextSource, column_of_values, json_records, text_file
from calibrant.predictions import Predictions

__all__ = ["JSONL", "JsonlSource", "record_shape"]


class JsonlSource(TextSource[dict[str, Any]]):
    """One jsonl file, whose columns are the keys of its first line.

    Scores are a list, an object with one number per label name, or one key per class.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _, self._first = next(self.records(), (0, {}))
        self.columns = {key: record_shape(value) for key, value in self._first.items()}

    def label_names(self, scores: str) -> tuple[str, ...] | None:
        """Return the keys, where the scores of a line are an object."""
        value = self._first[scores]
        return tuple(value) if isinstance(value, dict) else None

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number and object of each line, without empty lines."""
        return json_records(self.path)

    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Yield blocks by pyarrow as far as it goes."""
        return arrow_jsonl_blocks(self.path, self._first, layout, rows, self.lines)

    def block(
        self, records: Sequence[dict[str, Any]], lines: Sequence[int], layout: Layout
    ) -> Block:
        """Return scores as numbers, all else of the type that its values share, or as text."""
        columns = {}
        for name in (layout.label, *layout.groups):
            values = [record.get(name) for record in records]
            lists = bool(self.columns[name])  # The labels of many labels.
            columns[name] = (
                self._numbers(name, values, lines) if lists else column_of_values(values)
            )
        for name in layout.numbers:
            columns[name] = self._numbers(name, [record.get(name) for record in records], lines)
        return Block(columns, lines, "line")

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write the objects again; scores change list by list, object by object or one by one."""
        keys = {name: self.label_names(name) for name in new.layout.scores}
        with text_file(target) as file:
            for record, row in self.rewritten(new):
                values = row if new.layout.per_class else [row]
                pairs = zip(new.layout.scores, values, strict=True)
                scores = {name: _like(record[name], value, keys[name]) for name, value in pairs}
                written = _rewritten(record, scores, new)
                file.write(json.dumps(written, ensure_ascii=False) + "\n")

    def _numbers(self, name: str, values: list[Any], lines: Sequence[int]) -> np.ndarray:
        """Return numbers of shape (n,) or (n, K)."""
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
        """Return the same where NumPy has no type for all: some integers have many digits."""
        shape = self.columns[name]
        expected = f"a list of {shape[0]} numbers" if shape else "a number"
        for value, line in zip(values, lines, strict=True):
            if record_shape(value) != shape or shape is None or (shape == () and _odd(value)):
                raise self._wrong(name, expected, line)
        try:
            return np.array([_floats(value) for value in values])
        except OverflowError:
            at = next(i for i, value in enumerate(values) if not _fits(value))
            raise self._wrong(name, f"{expected} below 1e308", lines[at]) from None

    def _wrong(self, name: str, expected: str, line: int) -> InputError:
        return InputError(f"{self.path}: expected {expected} in '{name}' at line {line}.")


def _rewritten(record: dict[str, Any], scores: dict[str, Any], new: NewScores) -> dict[str, Any]:
    return {
        new.renamed.get(key, key): scores.get(key, value)
        for key, value in record.items()
        if new.keeps(key)
    }


def _like(old: Any, new: Any, keys: tuple[str, ...] | None) -> Any:
    """Return the new scores, those of ``keys``, in an object in the order of the old one.

    Each line may have its own order, such as the largest score first.
    """
    if keys is None:
        return new
    found = dict(zip(keys, new, strict=True))
    return {key: found[key] for key in old}


def record_shape(value: Any) -> Shape:
    """Return the shape of a value of a record: () if single, None if it has none."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return (len(value),) if value and not any(map(_odd, value)) else None
    return ()


def _odd(value: Any) -> bool:
    """Return whether a value is not a number."""
    return isinstance(value, bool) or not isinstance(value, (int, float))


def _floats(value: Any) -> Any:
    return [float(number) for number in value] if isinstance(value, list) else float(value)


def _fits(value: Any) -> bool:
    try:
        _floats(value)
    except OverflowError:
        return False
    return True


def _write(parts: Iterator[Predictions | Claims], path: Path) -> None:
    """Write scores as an object and labels by name, or lists and numbers without label names."""
    with text_file(path) as file:
        for part in parts:
            others = {name: column.tolist() for name, column in other_columns(part).items()}
            if isinstance(part, Claims):
                for row in zip(*others.values(), strict=True):
                    record = dict(zip(others, row, strict=True))
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                continue
            part = part.numpy()
            names = part.label_names
            for i, (scores, label) in enumerate(
                zip(part.scores.tolist(), part.labels.tolist(), strict=True)
            ):
                record = {
                    part.kind: scores if names is None else dict(zip(names, scores, strict=True)),
                    "label": label if names is None else names[label],
                    **{name: column[i] for name, column in others.items()},
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


JSONL = Format((".jsonl", ".jsonl.gz"), JsonlSource, _write, by_name=True)
