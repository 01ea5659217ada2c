"""The study as one HTML file in which every number links to its records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from calibrant.charts.numbers import counted, show
from calibrant.report.markup import Markup, join, sentence, tag, user_text
from calibrant.report.page import render_page
from calibrant.report.svg import draw_svg
from calibrant.report.tables import entries, table_box
from calibrant.study.figures import StudyFigure, figures_of
from calibrant.study.measures import score_of
from calibrant.study.runs import Run
from calibrant.study.study import Study
from calibrant.study.table import Table, TableEntry, TableRow, set_name

__all__ = ["render_study"]


def render_study(study: Study) -> str:
    """Return the page as text."""
    figures = figures_of(study)
    units = list(study.units)
    overall = [table for table in study.tables if not table.unit]
    parts = [_summary(study), _contents(study, bool(overall)), _missing(study)]
    if overall:
        drawn = [figure for figure in figures if not figure.unit]
        content = [*map(_table, overall), *map(_figure, drawn)]
        parts.append(_section("Over all corpora", "overall", *content))
    for number, unit in enumerate(units):
        tables = [table for table in study.tables if table.unit == unit]
        drawn = [figure for figure in figures if figure.unit == unit]
        content = [*map(_table, tables), *map(_figure, drawn)]
        parts.append(_section(unit, f"unit-{number}", *content))
    parts += [_records(study.runs), _sources(study.record_sets), _origins(study)]
    corpora = len({run.corpus for run in study.runs})  # A unit may be a setting of one.
    summary = " · ".join(
        [
            counted(len(study.runs), "record"),
            f"{corpora} {'corpus' if corpora == 1 else 'corpora'}",
            counted(len({run.method for run in study.runs}), "method"),
            counted(len({run.seed for run in study.runs}), "seed"),
        ]
    )
    style = resources.files(__package__).joinpath("style.css").read_text("utf-8")
    return render_page(study.title or "Report of runs", summary, join(parts), style)


def _summary(study: Study) -> Markup:
    listed = tag("ul", *(tag("li", sentence) for sentence in study.summary))
    return tag("section", tag("h2", "Summary"), listed)


def _contents(study: Study, overall: bool) -> Markup:
    links = [("overall", "Over all corpora")] if overall else []
    links += [(f"unit-{number}", unit) for number, unit in enumerate(study.units)]
    links += [("records", "Records"), ("origins", "Where the numbers come from")]
    listed = [tag("li", tag("a", user_text(words), href=f"#{name}")) for name, words in links]
    return tag("section", tag("h2", "Contents"), tag("nav", tag("ul", *listed)))


def _missing(study: Study) -> Markup | None:
    if not study.missing:
        return None
    listed = tag("ul", *(tag("li", sentence(words)) for words in study.missing))
    note = tag("p", "The report uses the records that exist. It lacks:", class_="note")
    return tag("section", tag("h2", "Missing"), note, listed, class_="warning")


def _section(title: str, name: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", user_text(title), id=name), *content)


def _table(table: Table) -> Markup:
    heads = [
        *(tag("th", head, scope="col") for head in table.label_heads),
        *(tag("th", head, scope="col", class_="number") for head in table.heads),
    ]
    if table.groups:
        over = [
            tag("th", user_text(title), scope="colgroup", colspan=n) for title, n in table.groups
        ]
        heads = [tag("th", colspan=len(table.label_heads)), *over, Markup("</tr><tr>"), *heads]
    rows = [_row(row, len(table.label_heads)) for row in table.rows]
    first, rest = rows[: table.most or None], rows[table.most :] if table.most else []
    box, note = table_box(table.title, heads, first), tag("p", table.note, class_="note")
    title, name = user_text(table.title), f"table-{table.name}"
    if table.closed:
        return tag("details", tag("summary", title), box, note, id=name)
    more = None
    if rest:
        others = table_box(f"{table.title}, the rest", heads, rest)
        more = tag("details", tag("summary", f"{len(rest)} more rows"), others)
    return join([tag("h3", title, id=name), box, more, note])


def _row(row: TableRow, labels: int) -> Markup:
    link = f"#{set_name(row.keys)}" if row.keys else None
    first, *others = (user_text(label) for label in row.labels)
    cells = [
        tag("th", first, scope="row"),
        *(tag("td", label) for label in others),
        *(_entry(entry, link) for entry in row.entries),
    ]
    return tag("tr", *cells, class_="first" if row.first and labels > 1 else None)


def _entry(entry: TableEntry, link: str | None) -> Markup:
    words: Markup = tag("b" if entry.bold else "span", *_breakable(entry))
    return tag("td", tag("a", words, href=link) if link else words, class_="number")


def _breakable(entry: TableEntry) -> list[Markup | str]:
    """Keep a number on one line; its verdict ("better") may wrap below."""
    number, space, verdict = entry.text.rpartition(" ")
    if not (space and entry.n and verdict.isalpha()):
        return [entry.text]
    return [number, " ", Markup("<wbr>"), verdict]


def _figure(figure: StudyFigure) -> Markup:
    panels = [
        tag(
            "figure",
            tag("h4", chart.title, class_="which"),
            draw_svg(chart, f"{figure.title}, {chart.title}"),
        )
        for chart in figure.charts
    ]
    return join(
        [
            tag("h3", user_text(figure.title)),
            tag("div", *panels, class_="panels"),
            tag("p", figure.note, class_="note"),
        ]
    )


def _records(runs: Sequence[Run]) -> Markup:
    score = score_of(runs)
    heads = ["record", score.title, "ECE", "ECE (T)", "steps", "seconds", "source"]
    rows = [
        tag(
            "tr",
            tag("th", user_text(run.key), scope="row"),
            tag("td", show(score.of(run), 4), class_="number"),
            tag("td", show(run.value("ece"), 4), class_="number"),
            tag("td", show(run.value("ece", "temperature"), 4), class_="number"),
            tag("td", str(run.record.training.get("steps", "")), class_="number"),
            tag("td", str(run.record.training.get("seconds", "")), class_="number"),
            tag("td", user_text(run.record.circumstances.get("git") or "unknown")),
            id=_record_name(run.key),
        )
        for run in sorted(runs, key=lambda run: run.key)
    ]
    columns = [
        tag("th", head, scope="col", class_=None if head in ("record", "source") else "number")
        for head in heads
    ]
    box = tag("div", table_box("Records", columns, rows), class_="sources")
    return _section("Records", "records", box)


def _sources(sets: Iterable[tuple[str, ...]]) -> Markup:
    """List every set of records behind a row; the numbers of the tables link here."""
    listed = [
        tag(
            "p",
            tag("b", f"{counted(len(keys), 'record')}: "),
            join(
                piece
                for key in keys
                for piece in (tag("a", key, href=f"#{_record_name(key)}"), Markup(" "))
            ),
            class_="source",
            id=set_name(keys),
        )
        for keys in sets
    ]
    note = tag("p", "Each number in a table links to its records.", class_="note")
    return _section(
        "Records behind the rows", "sources", note, tag("div", *listed, class_="sources")
    )


def _origins(study: Study) -> Markup:
    return _section("Where the numbers come from", "origins", entries(study.origins))


def _record_name(key: str) -> str:
    return "record-" + hashlib.sha256(key.encode()).hexdigest()[:12]
