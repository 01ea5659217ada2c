"""Write a study to disk: page, Markdown, tables as LaTeX and CSV, figures, and data."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from calibrant.errors import InputError, MissingExtraError, printable
from calibrant.json_values import FORMAT
from calibrant.outputs import new_files
from calibrant.study.figures import figures_of
from calibrant.study.markdown import markdown_report
from calibrant.study.page import render_study
from calibrant.study.study import Study
from calibrant.study.table import Table, TableEntry

__all__ = ["csv_table", "latex_table", "write_study"]

_DATA = "study.json"
Writer = Callable[[Path], object]
_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "∞": r"$\infty$", "×": r"$\times$", "²": "$^2$",
    "<": "$<$", ">": "$>$", "“": "``", "”": "''", "’": "'", "γ": r"$\gamma$", "λ": r"$\lambda$",
    "∇": r"$\nabla$", "/": "/",
}  # fmt: skip
_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def write_study(
    folder: str | Path,
    study: Study,
    *,
    overwrite: bool = False,
    inputs: Iterable[Path] = (),
    page: str = "index.html",
) -> list[str]:
    """Write all files into ``folder``; return remarks, such as a missing matplotlib.

    ``page`` is the name of the HTML file.

    Writes are atomic. Existing files are kept unless ``overwrite`` is set; then the files of an
    earlier report that this one does not write are removed, so that no stale table remains.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant.experiments.recipe import Recipe
    >>> from calibrant.experiments.record import Record
    >>> from calibrant.study import build_study
    >>> part = {"identity": {"valid": {"ece": 0.05}, "test": {"ece": 0.06}}}
    >>> study = build_study([Record(Recipe(data="gum"), part, {}, {})])
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_study(folder, study)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['index.html', 'report.md', 'study.json', 'tables']
    """
    folder, inputs = Path(folder), list(inputs)
    if any(source.is_dir() and source.resolve() == folder.resolve() for source in inputs):
        raise InputError(f"{folder} holds the records; write the report to another folder.")
    writers, remarks = _writers(study, page)
    before = _earlier(folder) if overwrite else []
    files = [source for source in inputs if not source.is_dir()]
    with new_files(folder, list(writers), overwrite=overwrite, inputs=files) as unfinished:
        for part in {(unfinished / name).parent for name in writers}:
            part.mkdir(exist_ok=True)
        for name, write in writers.items():
            write(unfinished / name)
    for name in before:
        if name not in writers and not (folder / name).parent.is_symlink():
            (folder / name).unlink(missing_ok=True)
    return remarks


def _writers(study: Study, page: str) -> tuple[dict[str, Writer], list[str]]:
    """Return file name → the function that writes it."""
    pictures, remarks = _pictures(study)
    svgs = [(name, words) for name, words in pictures[1].items() if name.endswith(".svg")]
    texts = {page: render_study(study), "report.md": markdown_report(study, svgs)}
    for table in study.tables:
        texts[f"tables/{table.name}.csv"] = csv_table(table)
        texts[f"tables/{table.name}.tex"] = latex_table(table) + "\n"
    writers: dict[str, Writer] = {name: _writer(text) for name, text in texts.items()}
    writers |= pictures[0]
    files = sorted([*writers, _DATA])
    content = json.dumps(
        {"format": FORMAT, **study.to_dict(), "files": files}, indent=1, allow_nan=False
    )
    writers[_DATA] = _writer(content + "\n")
    return writers, remarks


def _writer(text: str) -> Writer:
    return lambda path: path.write_bytes(text.encode("utf-8", "replace"))


def _pictures(study: Study) -> tuple[tuple[dict[str, Writer], dict[str, str]], list[str]]:
    from calibrant.plots.drawing import draw_charts, save_figure

    writers: dict[str, Writer] = {}
    titles: dict[str, str] = {}
    try:
        for figure in figures_of(study):
            drawn = draw_charts(figure.charts, figure.title)
            for ending in ("svg", "png"):
                name = f"figures/{figure.name}.{ending}"
                writers[name] = lambda path, drawn=drawn: save_figure(drawn, path)  # type: ignore[misc]
                titles[name] = figure.title
    except MissingExtraError as error:
        return ({}, {}), [f"No figures as SVG and PNG: {error}"]
    return (writers, titles), []


def _earlier(folder: Path) -> list[str]:
    """Return the files that an earlier report lists as its own; only these are ever removed."""
    try:
        names = json.loads((folder / _DATA).read_text("utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    safe = [name for name in names if isinstance(name, str) and ".." not in Path(name).parts]
    return [name for name in safe if Path(name).parts[0] in ("tables", "figures")]


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
        rf"\caption{{{_escape(table.title)}. {_escape(table.note)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_groups(table),
        _line([_escape(head) for head in (*table.label_heads, *table.heads)]),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        if place and row.first and len(table.label_heads) > 1:
            lines.append(r"\addlinespace")
        lines.append(_line([*map(_escape, row.labels), *map(_entry, row.entries)]))
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines)


def _groups(table: Table) -> list[str]:
    """Format the titles over several columns, with a rule under each title."""
    if not table.groups:
        return []
    start, rules = len(table.label_heads) + 1, []
    cells = [""] * len(table.label_heads)
    for title, span in table.groups:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{_escape(title)}}}")
        rules += [rf"\cmidrule(lr){{{start}-{start + span - 1}}}"] if title else []
        start += span
    return [_line(cells), " ".join(rules)]


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _entry(entry: TableEntry) -> str:
    text = _escape(entry.text)
    return rf"\textbf{{{text}}}" if entry.bold else text


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)


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
    writer.writerow([_cell(head) for head in (*table.label_heads, *heads, "records")])
    for row in table.rows:
        cells: list[str] = []
        for entry, has_half, has_bold in zip(row.entries, spread, marked, strict=True):
            cells.append(_value(entry))
            cells += [_number(entry.half)] * has_half + [str(int(entry.bold))] * has_bold
        writer.writerow([*map(_cell, row.labels), *cells, _cell(" ".join(row.keys))])
    return file.getvalue()


def _value(entry: TableEntry) -> str:
    return _number(entry.value) if entry.n else _cell(entry.text)


def _cell(cell: str) -> str:
    """Put ' before a text that a spreadsheet would take for a formula.

    >>> _cell("=HYPERLINK()"), _cell("-0.5"), _cell("focal")
    ("'=HYPERLINK()", '-0.5', 'focal')
    """
    cell = printable(cell)  # A cell that begins with a tab or a line break would be one as well.
    if cell[:1] not in _FORMULAS or _PLAIN_NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"
