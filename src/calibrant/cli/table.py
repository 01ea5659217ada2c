"""Tables that a person can read in a terminal of any width."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

from calibrant.errors import printable

__all__ = ["render_table", "that_fit"]

_GAP = "  "
_NARROWEST = 24  # Below this a wrapped last column is harder to read than a long line.


def render_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    width: int | None = None,
) -> str:
    """Align columns under a rule; the last column is wrapped to the terminal's width.

    ``right`` names the columns, counted from 0, that are aligned on the right (numbers).

    >>> print(render_table(["metric", "value"], [["ECE", "0.05"], ["accuracy", "0.9"]], right=[1]))
    metric    value
    ───────────────
    ECE        0.05
    accuracy    0.9
    """
    headers, rows = list(map(printable, headers)), [list(map(printable, row)) for row in rows]
    width = width or shutil.get_terminal_size().columns
    sizes = [max(_cells(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    fixed = sum(sizes[:-1]) + len(_GAP) * (len(sizes) - 1)
    sizes[-1] = min(sizes[-1], max(width - fixed, _NARROWEST))
    lines = [_line(headers, sizes, right), "─" * min(fixed + sizes[-1], max(width, fixed))]
    for row in rows:
        first, *rest = textwrap.wrap(row[-1], sizes[-1]) or [""]
        lines.append(_line([*row[:-1], first], sizes, right))
        lines += [" " * fixed + more for more in rest]
    return "\n".join(lines)


def that_fit(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    least_needed: Sequence[str],
    *,
    width: int | None = None,
) -> tuple[list[int], list[str]]:
    """Return which columns fit into the terminal, and the headers of the others.

    ``least_needed`` names the columns that may be left out, in this order. A file or a pipe has
    room for all.

    >>> that_fit(["metric", "value", "about"], [["ECE", "0.05", "the gap"]], ["about"], width=15)
    ([0, 1], ['about'])
    """
    width = width or shutil.get_terminal_size(fallback=(sys.maxsize, 24)).columns
    sizes = [max(_cells(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    left_out: list[str] = []
    for name in least_needed:
        kept = [i for i, header in enumerate(headers) if header not in left_out]
        if sum(sizes[i] for i in kept) + len(_GAP) * (len(kept) - 1) <= width:
            break
        left_out.append(name)
    return [i for i, header in enumerate(headers) if header not in left_out], left_out


def _line(cells: Sequence[str], sizes: Sequence[int], right: Sequence[int]) -> str:
    aligned = []
    for i, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        gap = " " * (size - _cells(cell))
        aligned.append(gap + cell if i in right else cell + gap)
    return _GAP.join(aligned).rstrip()


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: Chinese letters two, accents none.

    >>> _cells("cat"), _cells("猫"), _cells("e\u0301")
    (3, 2, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
