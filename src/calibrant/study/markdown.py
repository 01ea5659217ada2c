"""Tables and studies as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from calibrant.errors import printable
from calibrant.study.study import Study
from calibrant.study.table import Table

__all__ = ["markdown_report", "markdown_table"]

_WHERE = (
    "`calibrant report RUNS -o FOLDER` writes `index.html` (all tables, with figures and links "
    "from every number to its records), `tables/*.csv` (unrounded, with the records behind every "
    "row) and `tables/*.tex`."
)


def markdown_table(table: Table) -> str:
    """Format a table in GitHub's Markdown: the rows shown at first, the best in bold.

    >>> from calibrant.study.table import TableEntry, TableRow
    >>> row = TableRow(("focal",), (TableEntry("0.1", bold=True),))
    >>> print(markdown_table(Table("t", "T", ("method",), ("ECE",), (row,))))
    | method | ECE |
    |---|---:|
    | focal | **0.1** |
    """
    heads = [*table.label_heads, *table.full_heads]
    rule = ["---"] * len(table.label_heads) + ["---:"] * len(table.heads)
    lines = [_line(heads), "|" + "|".join(rule) + "|"]
    for row in table.rows[: table.most or None]:
        entries = [f"**{_plain(e.text)}**" if e.bold else _plain(e.text) for e in row.entries]
        lines.append("| " + " | ".join([*map(_plain, row.labels), *entries]) + " |")
    return "\n".join(lines)


def markdown_report(study: Study, pictures: Iterable[tuple[str, str]] = ()) -> str:
    """Format a study without its details; ``pictures`` are file names with captions."""
    title = _plain(study.title or "Report of runs")
    summary = "\n".join(f"- {_plain(sentence)}" for sentence in study.summary)
    parts = [f"# {title}", summary, _WHERE]
    if study.missing:
        parts += ["## Missing", "\n".join(f"- {_plain(sentence)}" for sentence in study.missing)]
    overall = [table for table in study.tables if not table.unit]
    if overall:
        parts += ["## Over all corpora", *_sections(overall)]
    for unit in study.units:
        tables = [table for table in study.tables if table.unit == unit]
        parts += [f"## {_plain(unit)}", *_sections(tables)]
    shown = list(pictures)
    if shown:
        parts += ["## Figures", *(f"![{_plain(words)}]({quote(name)})" for name, words in shown)]
    parts += ["## Where the numbers come from", _entries(study.origins)]
    return "\n\n".join(parts) + "\n"


def _sections(tables: Sequence[Table]) -> list[str]:
    parts = []
    for table in tables:
        if not table.closed:
            parts += [f"### {_plain(table.title)}", markdown_table(table)]
            left = len(table.rows) - table.most
            if table.most and left > 0:
                parts.append(f"{left} more rows: `tables/{table.name}.csv`.")
            parts.append(_plain(table.note))
    closed = [f"{_plain(table.title)} (`{table.name}`)" for table in tables if table.closed]
    return [*parts, f"Further tables: {'; '.join(closed)}."] if closed else parts


def _entries(values: object, depth: int = 0) -> str:
    """Format nested keys and values as nested lists, the innermost in one line."""
    lines = []
    if isinstance(values, dict):
        for key, value in values.items():
            nested = isinstance(value, dict) and any(isinstance(v, dict) for v in value.values())
            words = "" if nested else f" {_plain(_describe(value))}"
            lines.append(f"{'  ' * depth}- {_plain(key)}:{words}")
            if nested:
                lines.append(_entries(value, depth + 1))
    return "\n".join(lines)


def _describe(value: object) -> str:
    if isinstance(value, list):
        sentences = all(isinstance(v, str) and v.endswith(".") for v in value)
        return (" " if sentences else ", ").join(map(str, value))
    if isinstance(value, dict):
        counts = all(type(v) is int for v in value.values())  # Each value with its records
        return "; ".join(
            f"{k} ({v:,})" if counts else f"{k}{_mark(v)} {_describe(v)}" for k, v in value.items()
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}"


def _mark(value: object) -> str:
    """Return what separates a key from its value: numbers follow their name, words a colon."""
    return ":" if isinstance(value, list | str) else ""


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Escape text for Markdown: no markup, no HTML, no link, on one line."""
    text = printable(text.replace("\n", " ").replace("\\", "\\\\"))
    return re.sub(r"[|*`\[\]]", r"\\\g<0>", html.escape(text, quote=False))
