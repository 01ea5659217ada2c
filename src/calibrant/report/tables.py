"""The tables of the report: measures, classes, mistakes, bins, and lists of names and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant.auditing import ClassRow, GroupRow, GroupTable, Measure, Mistake
from calibrant.charts.numbers import DASH, count, interval, number, percent, points, signed
from calibrant.metrics import METRICS, RiskPoint
from calibrant.report.markup import Markup, join, tag, user_text

__all__ = [
    "MOST_ROWS", "class_table", "entries", "group_table", "measure_table", "mistake_table", "more",
    "plain_table", "risk_table", "table_box", "with_interval",
]  # fmt: skip

# Rows shown of long lists; the text gives the number of the rest.
MOST_ROWS = 25
_MOST_ENTRIES = 60  # Of one list of names and values.


def measure_table(columns: Mapping[str, Sequence[Measure]]) -> Markup:
    """Return one row per measure; two audits get a column each and one for the change."""
    found = {name: {m.name: m for m in measures} for name, measures in columns.items()}
    names = list(dict.fromkeys(key for column in found.values() for key in column))
    values = [*found, "Change"] if len(found) > 1 else ["Value"]
    heads = [tag("th", "Measure", scope="col"), *map(_number_head, values)]
    heads.append(tag("th", "What it means", scope="col", class_="meaning"))
    rows = [_measure_row(key, found) for key in names]
    return table_box("Measures", heads, rows, f"measures by-{len(values)}")


def _measure_row(key: str, found: Mapping[str, Mapping[str, Measure]]) -> Markup:
    measures = [column.get(key) for column in found.values()]
    last = next(m for m in reversed(measures) if m is not None)
    title = tag("span", last.title, class_="title")
    cells = [tag("th", title, " ", tag("code", key), scope="row")]
    for name, m in zip(found, measures, strict=True):
        words = tag("span", name if len(found) > 1 else "", class_="narrow")
        shown = with_interval(m.value, m.low, m.high, number) if m else DASH
        cells.append(tag("td", words, shown, class_="number"))
    if len(measures) > 1:
        cells.append(_change(key, measures[0], measures[-1]))
    return tag("tr", *cells, tag("td", last.meaning, class_="meaning"))


def with_interval(
    value: float, low: float | None, high: float | None, form: Callable[[float], str]
) -> Markup:
    """Return a value with its interval, if it has one; ``form`` gives both the same unit."""
    spread = interval(low, high, form)
    return join([form(value), tag("span", spread, class_="spread") if spread else None])


def _change(key: str, first: Measure | None, last: Measure | None) -> Markup:
    words = tag("span", "Change", class_="narrow")
    change = float("nan") if first is None or last is None else last.value - first.value
    text = signed(change, 4)
    direction = METRICS[key].better if key in METRICS else 0
    if not direction or not text.startswith(("+", "−")):
        return tag("td", words, text, class_="number")
    better = "better" if change * direction > 0 else "worse"
    return tag("td", words, text, tag("span", better, class_="spread"), class_=f"number {better}")


def class_table(rows: Sequence[ClassRow], what: str = "Class") -> Markup:
    """Return the figures of each predicted class, worst first, most important columns first."""
    numbers = ["Gap (points)", "Confidence", "Accuracy", "Predicted", "Labelled"]
    heads = [tag("th", what, scope="col"), *map(_number_head, numbers)]
    body = [
        tag(
            "tr",
            tag("th", user_text(row.name), scope="row"),
            _gap(row.gap),
            tag("td", percent(row.confidence), class_="number"),
            tag("td", percent(row.accuracy), class_="number"),
            tag("td", count(row.predicted), class_="number"),
            tag("td", count(row.labelled), class_="number"),
        )
        for row in rows[:MOST_ROWS]
    ]
    return join([table_box(f"{what} by gap", heads, body), more(len(rows), len(body))])


def group_table(table: GroupTable) -> Markup:
    """Return one row per subgroup of a column, with intervals."""
    numbers = ["Gap (points)", "Confidence", "Accuracy", "ECE", "Examples", "Differs"]
    if table.of == "positive class":
        numbers[1:3] = ["Mean score", "Share of positives"]
    heads = [tag("th", user_text(table.column), scope="col"), *map(_number_head, numbers)]

    def cell(row: GroupRow, key: str, form: Callable[[float], str]) -> Markup:
        value, low, high = (getattr(row, key + end) for end in ("", "_low", "_high"))
        return tag("td", with_interval(value, low, high, form), class_="number")

    body = [
        tag(
            "tr",
            tag("th", user_text(row.name), scope="row"),
            cell(row, "gap", points),
            cell(row, "confidence", percent),
            cell(row, "accuracy", percent),
            cell(row, "ece", number),
            tag("td", count(row.n), class_="number"),
            tag("td", f"yes, p = {row.p_value:.2g}" if row.differs else "no", class_="number"),
        )
        for row in table.rows
    ]
    return join([tag("h4", table.of.capitalize()), table_box("Subgroups", heads, body)])


def _gap(gap: float) -> Markup:
    text = points(gap)
    side = "over" if text.startswith("+") else "under" if text.startswith("−") else None
    arrow = {"over": "▲ ", "under": "▼ "}.get(side or "", "")
    return tag("td", arrow + text, class_=f"number {side or ''}".strip())


def mistake_table(mistakes: Sequence[Mistake]) -> Markup:
    """Return wrong predictions, the most confident first, with columns that locate them."""
    shown = mistakes[:MOST_ROWS]
    groups = list(dict.fromkeys(key for mistake in shown for key in mistake.groups))
    words = ["Predicted", "Truth", *map(user_text, groups)]
    heads = [*(tag("th", word, scope="col") for word in words), _number_head("Row")]
    body = [
        tag(
            "tr",
            tag("td", percent(mistake.confidence, 2), class_="number"),
            tag("td", user_text(mistake.predicted)),
            tag("td", user_text(mistake.label)),
            *(tag("td", user_text(mistake.groups.get(key, DASH))) for key in groups),
            tag("td", count(mistake.row), class_="number"),
        )
        for mistake in shown
    ]
    table = table_box("Most confident mistakes", [_number_head("Confidence"), *heads], body)
    return join([table, more(len(mistakes), len(body))])


def risk_table(points: Sequence[RiskPoint]) -> Markup | None:
    """Return what can be kept at which risk, and from which confidence."""
    if not points:
        return None
    rows = [
        [
            f"{100 * point.risk:g} %",
            percent(point.coverage),
            point.threshold_text,
        ]
        for point in points
    ]
    return plain_table("Kept at a risk", ["At most wrong", "Kept", "From confidence"], rows)


def plain_table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table of ready numbers."""
    body = [tag("tr", *(tag("td", cell, class_="number") for cell in row)) for row in rows]
    return table_box(label, [*map(_number_head, heads)], body)


def _number_head(words: str) -> Markup:
    return tag("th", words, scope="col", class_="number")


def table_box(label: str, heads: Sequence[str], rows: Sequence[Markup], class_: str = "") -> Markup:
    """Return a table in its own box, which scrolls on narrow screens; the page does not."""
    table = tag(
        "table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_=class_ or None
    )
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def more(all_rows: int, shown: int) -> Markup | None:
    """Return how many rows are shown, or None if all are."""
    if all_rows <= shown:
        return None
    return tag("p", f"{count(shown)} of {count(all_rows)} shown.", class_="note")


def entries(values: Mapping[Any, Any]) -> Markup:
    """Return names and values as a definition list."""
    pairs = [
        tag("div", tag("dt", user_text(str(key).replace("_", " "))), tag("dd", _value(value)))
        for key, value in list(values.items())[:_MOST_ENTRIES]
    ]
    return tag("dl", *pairs, _in_all(len(values)), class_="entries")


def _value(value: Any) -> Markup:
    if isinstance(value, Mapping):
        return entries(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        shown = [_value(entry) for entry in value[:_MOST_ENTRIES]]
        if any(isinstance(entry, Mapping) for entry in value[:_MOST_ENTRIES]):
            return join([*shown, _in_all(len(value))])
        return Markup(", ".join([*shown, *filter(None, [_in_all(len(value))])]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return user_text(value)
    return tag("span", count(value) if isinstance(value, int) else f"{value:.6g}")


def _in_all(length: int) -> Markup | None:
    return tag("span", f"… {count(length)} in all") if length > _MOST_ENTRIES else None
