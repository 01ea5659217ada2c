"""Write a study to disk: page, Markdown, tables as LaTeX and CSV, figures, and data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from calibrant.errors import InputError, MissingExtraError
from calibrant.json_values import FORMAT
from calibrant.outputs import new_files
from calibrant.study.figures import figures_of
from calibrant.study.markdown import markdown_report
from calibrant.study.page import render_study
from calibrant.study.study import Study
from calibrant.study.table_files import csv_table, latex_table

__all__ = ["write_study"]

_DATA = "study.json"
Writer = Callable[[Path], object]


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
