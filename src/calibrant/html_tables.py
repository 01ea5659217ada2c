"""Small HTML tables: how notebooks show audits, comparisons and states."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_table"]


def html_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], above: Sequence[str] = ()
) -> str:
    """Return paragraphs and a table; all text is escaped.

    >>> html_table(["metric", "value"], [["ECE", "< 0.1"]])
    '<table><tr><th>metric</th><th>value</th></tr><tr><td>ECE</td><td>&lt; 0.1</td></tr></table>'
    """
    lines = "".join(f"<p>{escape(text)}</p>" for text in above)
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"{lines}<table><tr>{head}</tr>{body}</table>"
