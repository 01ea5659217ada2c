"""A table as data: every entry with its number, its text and its records."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from calibrant.charts.numbers import show
from calibrant.json_values import json_values
from calibrant.study.statistics import Estimate

__all__ = ["Table", "TableEntry", "TableRow", "as_entry", "grouped", "number_entry", "set_name"]


@dataclass(frozen=True)
class TableEntry:
    """One cell of a table: its text, and the numbers behind it if there are any."""

    text: str
    value: float = math.nan
    half: float = math.nan
    n: int = 0
    bold: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as data; null for what is not a number."""
        numbers = {"value": self.value, "half": self.half}
        content: dict[str, Any] = {"text": self.text, "bold": self.bold, "n": self.n}
        return content | dict(json_values(numbers))


@dataclass(frozen=True)
class TableRow:
    """Labels on the left, entries on the right, and the keys of the records behind them."""

    labels: tuple[str, ...]
    entries: tuple[TableEntry, ...]
    keys: tuple[str, ...] = ()
    first: bool = False  # Starts a group: a rule above it


@dataclass(frozen=True)
class Table:
    """A named table of one unit (corpus and setting) or of several."""

    name: str
    title: str
    label_heads: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    unit: str = ""
    measures: tuple[dict[str, str], ...] = field(default=())
    groups: tuple[tuple[str, int], ...] = ()  # Titles, each with its number of columns
    closed: bool = False  # A detail: folded on the page, only named in Markdown
    most: int = 0  # Rows that are shown at first; 0: all

    @property
    def full_heads(self) -> tuple[str, ...]:
        """The heads, each after the title of its group."""
        over = [title for title, span in self.groups for _ in range(span)]
        pairs = zip(over or [""] * len(self.heads), self.heads, strict=True)
        return tuple(" ".join(filter(None, pair)) for pair in pairs)

    def about(self, words: str) -> Table:
        """Add the setting or values of the table to its name and title.

        >>> Table("ranks", "Average rank", (), (), ()).about("batch 3").title
        'Average rank (batch 3)'
        """
        if not words:
            return self
        return replace(self, name=f"{self.name} {words}", title=f"{self.title} ({words})")

    def part(self, words: str) -> Table:
        """Name the part of a split table; the first part has no words."""
        if not words:
            return self
        return replace(self, name=f"{self.name} {words}", title=f"{self.title}, {words}")

    def to_dict(self) -> dict[str, Any]:
        """Return the table as data; "records" names the set of records behind a row."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "note": self.note,
            "label_heads": list(self.label_heads),
            "heads": list(self.full_heads),
            "measures": list(self.measures),
            "rows": [
                {
                    "labels": list(row.labels),
                    "entries": [entry.to_dict() for entry in row.entries],
                    "records": set_name(row.keys) if row.keys else None,
                }
                for row in self.rows
            ],
        }


def set_name(keys: tuple[str, ...]) -> str:
    """Name a set of records; the page and the data use the same name.

    >>> set_name(("gum-focal-s0", "gum-focal-s1"))
    'set-5956842b7c7d'
    """
    return "set-" + hashlib.sha256("\n".join(keys).encode()).hexdigest()[:12]


def as_entry(found: Estimate, digits: int, bold: bool = False, signed: bool = False) -> TableEntry:
    """Turn an estimate into an entry."""
    return TableEntry(found.show(digits, signed=signed), found.mean, found.half, found.n, bold)


def number_entry(value: float, digits: int) -> TableEntry:
    """Turn a plain number into an entry."""
    return TableEntry(show(value, digits), value, math.nan, 1)


def grouped(rows: Iterable[TableRow], place: int = 0) -> tuple[TableRow, ...]:
    """Mark the rows where the label at ``place`` changes."""
    found: list[TableRow] = []
    for row in rows:
        starts = not found or found[-1].labels[place] != row.labels[place]
        found.append(TableRow(row.labels, row.entries, row.keys, starts))
    return tuple(found)
