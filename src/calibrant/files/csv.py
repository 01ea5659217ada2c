"""csv: a header line, one column per class, comma-separated; gzipped or not."""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.arrow_text import arrow_csv_blocks
from calibrant.files.format import Block, Format, Layout, NewScores, other_columns
from calibrant.files.lines import (
    CsvWriter,
    TextSource,
    column_of_texts,
    csv_delimiter,
    csv_header,
    csv_records,
    text_file,
)
from calibrant.inputs import shortened
from calibrant.predictions import Predictions

__all__ = ["CSV", "TSV"]


class CsvSource(TextSource[list[str]]):
    """One csv file. Its columns have no types: labels are text, groups numbers where all are."""

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        self.path = path
        self.delimiter = delimiter or csv_delimiter(path)
        self._header_line, header = csv_header(path, self.delimiter)
        self.columns = dict.fromkeys(header, ())

    def label_names(self, scores: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return None: a csv has names only in those of its columns."""
        return None

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the cells of each record below the header."""
        return csv_records(self.path, self.columns, self.delimiter)

    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Yield blocks by pyarrow as far as it goes."""
        header = list(self.columns)
        where = (self.path, header, self._header_line)
        return arrow_csv_blocks(*where, layout, rows, self.lines, self.delimiter)

    def block(self, records: Sequence[list[str]], lines: Sequence[int], layout: Layout) -> Block:
        """Return scores as numbers, labels as text, groups as numbers where all are."""
        cells = dict(zip(self.columns, zip(*records, strict=True), strict=True))
        columns = {name: column_of_texts(cells[name]) for name in layout.groups}
        columns[layout.label] = text_array(cells[layout.label])
        for name in layout.numbers:
            columns[name] = self._numbers(name, cells[name], lines)
        return Block(columns, lines, "line")

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write the records again; the cells of scores change, and their names in the header."""
        scored = {name: k for k, name in enumerate(new.layout.scores)}
        kept = {name: i for i, name in enumerate(self.columns) if new.keeps(name)}
        cells = [(i, scored.get(name)) for name, i in kept.items()]
        written = _with_commas if self._has_decimal_commas(new.layout.scores) else list
        with text_file(target) as file:
            writer = CsvWriter(file, self.delimiter)
            writer.writerow(new.renamed.get(name, name) for name in kept)
            for record, scores in self.rewritten(new):
                row = written(scores if new.layout.per_class else [scores])
                writer.writerow([record[i] if k is None else row[k] for i, k in cells])

    def _has_decimal_commas(self, names: Sequence[str]) -> bool:
        """Return whether the first of these columns' numbers that is not whole has a comma."""
        if self.delimiter != ";":
            return False
        places = [list(self.columns).index(name) for name in names]
        cells = (record[place] for _, record in self.records() for place in places)
        return "," in next((cell for cell in cells if "," in cell or "." in cell), "")

    def _numbers(self, name: str, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        if self.delimiter == ";":  # Where the semicolon separates, the decimal point is a comma.
            texts = [text.replace(",", ".") for text in texts]
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            at = next(i for i, text in enumerate(texts) if not _is_number(text))
            raise InputError(
                f"{self.path}: expected a number in column '{name}' at line {lines[at]}, "
                f"got '{shortened(texts[at])}'{_advice(texts[at].strip())}."
            ) from None


def _with_commas(numbers: Sequence[float]) -> list[str]:
    return [str(number).replace(".", ",") for number in numbers]


def _advice(text: str) -> str:
    """Return what to do with a text that a person reads as a number.

    >>> _advice("71.5%"), _advice("0,93"), _advice("[0.1, 0.9]"), _advice("cat")
    ('; write 0.715', '; write 0.93', '; write one column per class, or a list in jsonl', '')
    """
    if text.startswith("[") and text.endswith("]"):
        return "; write one column per class, or a list in jsonl"
    number = text.removesuffix("%").strip().replace(",", ".")
    if not _is_number(number):
        return ""
    return f"; write {float(number) / 100:.10g}" if text.endswith("%") else f"; write {number}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write(parts: Iterator[Predictions | Claims], path: Path, delimiter: str = ",") -> None:
    """Write columns ``logits:NAME`` and labels by name, or ``logits_0`` without label names."""
    with text_file(path) as file:
        # All text in quotes: the writer would leave a carriage return in a name bare.
        options: Any = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
        writer = csv.writer(file, delimiter=delimiter, **options)
        for number, part in enumerate(parts):
            if isinstance(part, Claims):
                columns = other_columns(part)
                if number == 0:
                    writer.writerow(columns)
                writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
                continue
            part = part.numpy()
            if number == 0:
                mark = "_" if part.label_names is None else ":"
                scores = [f"{part.kind}{mark}{name}" for name in part.names]
                writer.writerow([*scores, "label", *other_columns(part)])
            labels = part.labels.tolist()
            if part.label_names is not None:
                labels = [part.label_names[label] for label in labels]
            beside = (column.tolist() for column in other_columns(part).values())
            others = zip(labels, *beside, strict=True)
            writer.writerows(
                [*row, *other] for row, other in zip(part.scores.tolist(), others, strict=True)
            )


CSV = Format((".csv", ".csv.gz"), CsvSource, _write, by_name=True)
TSV = Format(
    (".tsv", ".tsv.gz"),
    partial(CsvSource, delimiter="\t"),
    partial(_write, delimiter="\t"),
    by_name=True,
)
