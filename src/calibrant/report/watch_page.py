"""The page of a watched stream, with the look of all reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from calibrant.charts.chart import Chart, Curve, Place
from calibrant.charts.comparison import curve_chart
from calibrant.charts.numbers import count, counted, percent
from calibrant.charts.stream import stream_chart
from calibrant.outputs import new_file
from calibrant.report.markup import Markup, join, sentence, tag, user_text
from calibrant.report.page import render_page
from calibrant.report.svg import draw_svg, legend
from calibrant.report.tables import entries, more, table_box, with_interval
from calibrant.watching import Watch, WatchedChunk

__all__ = ["render_watch", "write_watch"]

_MOST_ROWS = 200
_MOST_PLACES = 150  # Of a chart; a longer stream shows only some chunks.


def write_watch(found: Watch, path: str | Path, overwrite: bool = False) -> Path:
    """Write the page of a watched stream; it is self-contained. Return the path."""
    with new_file(path, overwrite=overwrite) as unfinished:
        unfinished.write_bytes(render_watch(found).encode("utf-8", "replace"))
    return Path(path)


def render_watch(found: Watch) -> str:
    """Return the page as text."""
    parts = [counted(found.total.rows, "row"), counted(len(found.chunks), "chunk")]
    parts.append(counted(len(found.alarms), "alarm"))
    body = [_verdict(found), _diagrams(found), _table(found), _settings(found)]
    return render_page("Stream of predictions", " · ".join(parts), join(body))


def _verdict(found: Watch) -> Markup:
    first, *others = found.verdict
    warned = [tag("p", sentence(f"Warning: {w}"), class_="warning") for w in found.warnings]
    listed = tag("ul", *(tag("li", sentence(other)) for other in others))
    return _section("Verdict", tag("p", first, class_="lead"), *warned, listed)


def _diagrams(found: Watch) -> Markup:
    step = -(-len(found.chunks) // _MOST_PLACES)
    chunks = found.chunks[::step]
    numbers = range(1, len(found.chunks) + 1, step)
    names = [chunk.name for chunk in chunks]
    reference = float(found.reference.get("accuracy", math.nan))
    seen = [chunk.labelled_accuracy for chunk in chunks]
    accuracy = [chunk.expected_accuracy for chunk in chunks]
    figures = [_figure(stream_chart(names, accuracy, reference=reference, seen=seen), "Accuracy")]
    scores = []
    if not math.isnan(found.total.expected_macro_f1.value):
        scores.append(("Expected macro F1", [c.expected_macro_f1 for c in chunks], math.nan))
    if found.reference.get("entity_f1", math.nan) == found.reference.get("entity_f1"):
        entity = float(found.reference["entity_f1"])
        scores.append(("Expected entity F1", [c.expected_entity_f1 for c in chunks], entity))
    for what, values, known in scores:
        figures.append(_figure(stream_chart(names, values, what=what, reference=known), what))
    if found.reference:
        figures += [
            _figure(_drift(numbers, chunks), "Drift"),
            _figure(_evidence(found, numbers, chunks), "Evidence"),
        ]
    note = (
        "Intervals: where a chunk's value lies if the confidences are honest. Drift: the share "
        "of rows that would have to move; evidence is the capital of a bettor against “no change”, "
        "as a power of ten, with an alarm at its limit. Dots: what labels showed."
    )
    if step > 1:
        note += (
            f" Of the {count(len(found.chunks))} chunks, one in {step} is drawn; an alarm may be "
            "in another one."
        )
    return _section("Diagrams", tag("p", note, class_="note"), tag("div", *figures, class_="rows"))


def _figure(chart: Chart, label: str) -> Markup:
    return tag("figure", draw_svg(chart, label), tag("figcaption", legend(chart)))


def _drift(numbers: Sequence[int], chunks: Sequence[WatchedChunk]) -> Chart:
    kinds: list[tuple[str, Callable[[WatchedChunk], float]]] = [
        ("confidences", lambda chunk: chunk.confidence_drift),
        ("predicted classes", lambda chunk: chunk.class_drift),
    ]
    curves = [Curve(name, _places(numbers, chunks, value)) for name, value in kinds]
    return curve_chart(curves, "Chunk", "Drift")


def _evidence(found: Watch, numbers: Sequence[int], chunks: Sequence[WatchedChunk]) -> Chart:
    tests = found.settings["tests"]
    limit = math.log10(len(tests) / found.settings["false_alarms"])

    def power(test: str) -> Callable[[WatchedChunk], float]:
        return lambda chunk: math.log10(max(chunk.evidence[test], 1e-12))

    curves = [Curve(test, _places(numbers, chunks, power(test))) for test in tests]
    curves.append(Curve("alarm", _places(numbers, chunks, lambda _: limit)))
    return curve_chart(curves, "Chunk", "Evidence, power of ten")


def _places(
    numbers: Sequence[int],
    chunks: Sequence[WatchedChunk],
    value: Callable[[WatchedChunk], float],
) -> tuple[Place, ...]:
    pairs = zip(numbers, chunks, strict=True)
    found = ((float(number), value(chunk)) for number, chunk in pairs)
    return tuple(Place(x, y) for x, y in found if not math.isnan(y))


def _table(found: Watch) -> Markup:
    words = ["Rows", "Expected accuracy", "Expected macro F1", "Expected entity F1"]
    words += ["Drift of confidences", "Drift of classes", "Labelled", "Right", "Accuracy so far"]
    heads = [tag("th", "Chunk", scope="col")]
    heads += [tag("th", word, scope="col", class_="number") for word in words]
    rows = [_row(chunk) for chunk in (*found.chunks[:_MOST_ROWS], found.total)]
    table = table_box("Chunks", heads, rows)
    return _section("Chunks", table, more(len(found.chunks), len(rows) - 1))


def _row(chunk: WatchedChunk) -> Markup:
    cells = [
        count(chunk.rows),
        _estimate(chunk.expected_accuracy),
        _estimate(chunk.expected_macro_f1),
        _estimate(chunk.expected_entity_f1),
        percent(chunk.confidence_drift),
        percent(chunk.class_drift),
        count(chunk.labelled),
        percent(chunk.labelled_accuracy),
        _estimate(chunk.accuracy),
    ]
    name = join([user_text(chunk.name), tag("b", " alarm") if chunk.alarms else None])
    numbers = (tag("td", cell, class_="number") for cell in cells)
    return tag("tr", tag("th", name, scope="row"), *numbers)


def _estimate(found: tuple[float, float, float]) -> Markup:
    return with_interval(*found, form=percent)


def _settings(found: Watch) -> Markup:
    """Return the settings that were set, without old names."""
    reference = {name: value for name, value in found.reference.items() if value == value}
    more = reference.pop("inflation", 1.0)
    if more > 1:
        reference["times the variance of independent rows"] = more
    chosen = {name: v for name, v in found.settings.items() if name != "by" and v not in (None, [])}
    return _section("Settings", entries({**chosen, "reference": reference or "none"}))


def _section(title: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title), *content)
