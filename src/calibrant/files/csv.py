"""csv: a header line, one column per class, comma-separated; gzipped or not."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from calibrant.arrays import text_array
from calibrant.errors import InputError
from calibrant.files.arrow_text import quick_csv_blocks
from calibrant.files.lines import column_of_texts, csv_records, text_file
from calibrant.files.source import Block, Layout, Shape
from calibrant.inputs import first_repeated, shortened
from calibrant.predictions import Predictions

__all__ = ["CsvSource", "write_csv"]


class CsvSource:
    """One csv file. Its columns have no types: labels are text, groups numbers where all are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _, header = next(csv_records(path), (0, []))
        twice = first_repeated(header)
        if twice is not None:
            raise InputError(f"{path}: two columns are called '{twice}'.")
        self.columns: Mapping[str, Shape] = dict.fromkeys(header, ())

    def length(self, column: str) -> int | None:  # noqa: ARG002
        """Not known before the file is read."""
        return None

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """A csv has names only in those of its columns."""
        return None

    def blocks(self, rows: int, layout: Layout) -> Iterator[Block]:
        """``rows`` records at a time, by pyarrow as far as it goes."""
        header = list(self.columns)
        done = yield from quick_csv_blocks(self.path, header, layout, rows, self._lines)
        if done is not None:
            yield from self._plain_blocks(rows, layout, done)

    def _plain_blocks(self, rows: int, layout: Layout, done: int) -> Iterator[Block]:
        source = islice(csv_records(self.path), 1 + done, None)  # The first record is the header.
        records: list[list[str]] = []
        lines: list[int] = []
        for line, record in source:
            if len(record) != len(self.columns):
                raise InputError(
                    f"{self.path}: {len(record)} values at line {line}, but the header has "
                    f"{len(self.columns)} columns."
                )
            records.append(record)
            lines.append(line)
            if len(records) == rows:
                yield self._block(records, lines, layout)
                records, lines = [], []
        if records:
            yield self._block(records, lines, layout)

    def _lines(self) -> Iterator[int]:
        return (line for line, _ in csv_records(self.path))

    def _block(self, records: list[list[str]], lines: list[int], layout: Layout) -> Block:
        cells = dict(zip(self.columns, zip(*records, strict=True), strict=True))
        columns = {name: column_of_texts(cells[name]) for name in layout.groups}
        columns[layout.label] = text_array(cells[layout.label])
        for name in layout.scores:
            columns[name] = self._numbers(name, cells[name], lines)
        return Block(columns, lines, "line")

    def _numbers(self, name: str, texts: tuple[str, ...], lines: list[int]) -> np.ndarray:
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            at = next(i for i, text in enumerate(texts) if not _is_number(text))
            raise InputError(
                f"{self.path}: expected a number in column '{name}' at line {lines[at]}, "
                f"got '{shortened(texts[at])}'."
            ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_csv(parts: Iterator[Predictions], path: Path, *, compressed: bool) -> None:
    """Columns ``logits:NAME`` and labels by name where names are known, ``logits_0`` otherwise."""
    with text_file(path, compressed) as file:
        # All text in quotes: the writer would leave a carriage return in a name bare.
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        for number, part in enumerate(parts):
            part = part.numpy()
            if number == 0:
                mark = "_" if part.label_names is None else ":"
                scores = [f"{part.kind}{mark}{name}" for name in part.names]
                writer.writerow([*scores, "label", *part.groups])
            labels = part.labels.tolist()
            if part.label_names is not None:
                labels = [part.label_names[label] for label in labels]
            others = zip(labels, *(column.tolist() for column in part.groups.values()), strict=True)
            writer.writerows(
                [*row, *other] for row, other in zip(part.scores.tolist(), others, strict=True)
            )
