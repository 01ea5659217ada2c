"""Tables as LaTeX for papers; they need the package booktabs."""

from __future__ import annotations

from calibrant.study.table import Table, TableEntry

__all__ = ["latex_table"]

_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "∞": r"$\infty$", "×": r"$\times$", "²": "$^2$",
    "<": "$<$", ">": "$>$", "“": "``", "”": "''", "’": "'", "γ": r"$\gamma$", "λ": r"$\lambda$",
    "∇": r"$\nabla$", "/": "/",
}  # fmt: skip


def latex_table(table: Table) -> str:
    r"""Format a table as a float with caption and label.

    >>> from calibrant.study.table import TableRow
    >>> row = TableRow(("label_smoothing",), (TableEntry("0.1 ± 0.2", bold=True),), first=True)
    >>> print(latex_table(Table("gum-results", "T", ("method",), ("ECE",), (row,), "Note.")))
    % Needs \usepackage{booktabs}.
    \begin{table}
    \centering
    \caption{T. Note.}
    \label{tab:gum-results}
    \begin{tabular}{lr}
    \toprule
    method & ECE \\
    \midrule
    label\_smoothing & \textbf{0.1 $\pm$ 0.2} \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    columns = "l" * len(table.label_heads) + "r" * len(table.heads)
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_text(table.title)}. {_text(table.note)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_groups(table),
        _line([_text(head) for head in (*table.label_heads, *table.heads)]),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        if place and row.first and len(table.label_heads) > 1:
            lines.append(r"\addlinespace")
        lines.append(_line([*map(_text, row.labels), *map(_entry, row.entries)]))
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines)


def _groups(table: Table) -> list[str]:
    """Format the titles over several columns, with a rule under each title."""
    if not table.groups:
        return []
    start, rules = len(table.label_heads) + 1, []
    cells = [""] * len(table.label_heads)
    for title, span in table.groups:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{_text(title)}}}")
        rules += [rf"\cmidrule(lr){{{start}-{start + span - 1}}}"] if title else []
        start += span
    return [_line(cells), " ".join(rules)]


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _entry(entry: TableEntry) -> str:
    text = _text(entry.text)
    return rf"\textbf{{{text}}}" if entry.bold else text


def _text(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)
