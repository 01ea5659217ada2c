"""Tables as CSV: full precision, half of each interval, and the records behind each row."""

from __future__ import annotations

import csv
import io
import math
import re

from calibrant.errors import printable
from calibrant.study.table import Table, TableEntry

__all__ = ["csv_table"]

_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_table(table: Table) -> str:
    """Format one line per row, numbers unrounded, with half of each interval in its own column.

    The last column names the records behind the row, separated by spaces.

    >>> from calibrant.study.table import TableRow
    >>> entry = TableEntry("0.1 ± 0.0", 0.125, 0.03, 3, True)
    >>> row = TableRow(("focal",), (entry,), ("gum-focal-s0",))
    >>> print(csv_table(Table("t", "T", ("method",), ("ECE",), (row,))).strip())
    method,ECE,ECE ±,ECE bold,records
    focal,0.125,0.03,1,gum-focal-s0
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    spread = [any(not math.isnan(row.entries[i].half) for row in table.rows)
              for i in range(len(table.heads))]  # fmt: skip
    marked = [any(row.entries[i].bold for row in table.rows) for i in range(len(table.heads))]
    heads = [
        name
        for head, has_half, has_bold in zip(table.full_heads, spread, marked, strict=True)
        for name in (head, *[f"{head} ±"] * has_half, *[f"{head} bold"] * has_bold)
    ]
    writer.writerow([_text(head) for head in (*table.label_heads, *heads, "records")])
    for row in table.rows:
        cells: list[str] = []
        for entry, has_half, has_bold in zip(row.entries, spread, marked, strict=True):
            cells.append(_value(entry))
            cells += [_number(entry.half)] * has_half + [str(int(entry.bold))] * has_bold
        writer.writerow([*map(_text, row.labels), *cells, _text(" ".join(row.keys))])
    return file.getvalue()


def _value(entry: TableEntry) -> str:
    return _number(entry.value) if entry.n else _text(entry.text)


def _text(cell: str) -> str:
    """Put ' before a text that a spreadsheet would take for a formula.

    >>> _text("=HYPERLINK()"), _text("-0.5"), _text("focal")
    ("'=HYPERLINK()", '-0.5', 'focal')
    """
    cell = printable(cell)  # A cell that begins with a tab or a line break would be one as well.
    if cell[:1] not in _FORMULAS or _PLAIN_NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"
