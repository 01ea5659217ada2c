"""Tables and studies as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.study.study import Study
from calibrant.study.table import Table

__all__ = ["markdown_report", "markdown_table"]


def markdown_table(table: Table) -> str:
    """A table of GitHub's kind; the best in bold.

    >>> from calibrant.study.table import Entry, Row
    >>> row = Row(("focal",), (Entry("0.1", bold=True),))
    >>> print(markdown_table(Table("t", "T", ("method",), ("ECE",), (row,))))
    | method | ECE |
    |---|---:|
    | focal | **0.1** |
    """
    heads = [*table.label_heads, *table.full_heads]
    rule = ["---"] * len(table.label_heads) + ["---:"] * len(table.heads)
    lines = [_line(heads), "|" + "|".join(rule) + "|"]
    for row in table.rows:
        entries = [f"**{e.text}**" if e.bold else _plain(e.text) for e in row.entries]
        lines.append("| " + " | ".join([*map(_plain, row.labels), *entries]) + " |")
    return "\n".join(lines)


def markdown_report(study: Study, pictures: Iterable[tuple[str, str]] = ()) -> str:
    """The whole study; ``pictures`` are file names with what they show."""
    parts = ["# Report of runs", _summary(study)]
    if study.missing:
        parts += ["## Missing", "\n".join(f"- {sentence}" for sentence in study.missing)]
    overall = [table for table in study.tables if not table.unit]
    if overall:
        parts.append("## Over all corpora")
        parts += [part for table in overall for part in _section(table)]
    for unit in study.units:
        parts.append(f"## {_plain(unit)}")
        tables = [table for table in study.tables if table.unit == unit]
        parts += [part for table in tables for part in _section(table)]
    shown = list(pictures)
    if shown:
        parts += ["## Figures", *(f"![{words}]({name})" for name, words in shown)]
    parts += ["## Where the numbers come from", _entries(study.origins)]
    return "\n\n".join(parts) + "\n"


def _summary(study: Study) -> str:
    units = len(study.units)
    corpora = "1 corpus" if units == 1 else f"{units} corpora"
    return (
        f"{len(study.runs):,} records of {corpora}; the records behind every row stand in "
        "`tables/*.csv` and, with links, in `index.html`."
    )


def _section(table: Table) -> list[str]:
    return [f"### {_plain(table.title)}", markdown_table(table), table.note]


def _entries(values: object, depth: int = 0) -> str:
    """Nested keys and values as nested lists."""
    lines = []
    if isinstance(values, dict):
        for key, value in values.items():
            nested = isinstance(value, dict)
            told = "" if nested else f" {_told(value)}"
            lines.append(f"{'  ' * depth}- {key}:{told}")
            if nested:
                lines.append(_entries(value, depth + 1))
    return "\n".join(lines)


def _told(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Text that Markdown takes as it is."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("\n", " ")
