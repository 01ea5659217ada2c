"""The sections of the report, each a function of one or more audits by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant.auditing import Audit, EntityView, PixelView, PositiveView, TopView
from calibrant.charts.calibration import (
    bin_rows,
    class_chart,
    histogram_chart,
    reliability_chart,
    risk_chart,
)  # fmt: skip
from calibrant.charts.chart import Chart
from calibrant.charts.curve import thinned_curve, worst_classes
from calibrant.charts.numbers import number, percent, points
from calibrant.metrics import CalibrationState, accuracy, ece, mean_confidence
from calibrant.report.images import pixel_figures
from calibrant.report.markup import Markup, join, sentence, tag, user_text
from calibrant.report.svg import draw_svg, legend
from calibrant.report.tables import (
    class_table,
    entries,
    group_table,
    measure_table,
    mistake_table,
    plain_table,
    risk_table,
)

__all__ = ["sections"]

Audits = Mapping[str, Audit]

# The largest number of bars in the classwise grid; it bounds the file size for any bins.
_MOST_BARS = 180
_DIAGRAMS = {
    "Reliability": "How often the model is right, against how confident it is. The bands are "
    "Wilson intervals that treat the examples as independent.",
    "Distribution of confidences": "The distance between the two lines is the average over- or "
    "underconfidence.",
    "Answering only when confident": "How many of the answers are wrong if only the most "
    "confident ones are given.",
}


def sections(audits: Audits) -> Markup:
    """Return the body of the report."""
    return join(
        [
            _verdict(audits),
            _numbers(audits),
            _pixels(audits),
            _diagrams(audits),
            _positive(audits),
            _top(audits),
            _per_group(audits),
            _classes(audits),
            _mistakes(audits),
            _entities(audits),
            _provenance(audits),
        ]
    )


def _verdict(audits: Audits) -> Markup:
    def one(_: str, audit: Audit) -> Markup:
        first, *others = audit.verdict or ("",)
        listed = tag("ul", *(tag("li", sentence(s)) for s in others)) if others else None
        warned = [tag("p", sentence(f"Warning: {s}"), class_="warning") for s in audit.warnings]
        return join([tag("p", sentence(first), class_="lead"), *warned, listed])

    return _section("Verdict", _cards(audits), _each(audits, one))


def _cards(audits: Audits) -> Markup:
    states = [audit.state for audit in audits.values()]
    gaps = [mean_confidence(s) - accuracy(s) for s in states]
    side = "over" if gaps[-1] > 0 else "under"
    gap_texts = [points(gap) for gap in gaps]
    if len(gaps) == 1 and gap_texts[0].startswith(("+", "−")):
        gap_title, gap_texts = f"{side.title()}confident by", [gap_texts[0].lstrip("+−")]
    else:  # The direction may differ between two, so show the sign; 0.0 has none.
        gap_title = "Confidence minus accuracy"
    cards = [
        _card("Accuracy", [percent(accuracy(s)) for s in states]),
        _card("Mean confidence", [percent(mean_confidence(s)) for s in states]),
        _card(gap_title, gap_texts, "points", side),
        _card("Expected calibration error", [number(ece(s)) for s in states]),
    ]
    return tag("dl", *cards, class_="cards")


def _card(title: str, values: Sequence[str], unit: str = "", class_: str = "") -> Markup:
    earlier = [tag("span", value + " →", class_="earlier") for value in values[:-1]]
    small = tag("small", " " + unit) if unit else None
    figure = tag("dd", *earlier, tag("span", values[-1]), small, class_=class_ or None)
    return tag("div", tag("dt", title), figure)


def _numbers(audits: Audits) -> Markup:
    table = measure_table({name: audit.measures for name, audit in audits.items()})
    bracketed = any(m.low is not None for a in audits.values() for m in a.measures)
    level = next(iter(audits.values())).provenance.get("level")
    share = f"{100 * level:g} % " if isinstance(level, float) else ""
    note = f"In brackets: the {share}bootstrap interval." if bracketed else ""
    if len(audits) > 1:
        note += f" The sentences speak of “{list(audits)[-1]}”."
    return _section("Measures", _note(note) if note else None, table)


def _diagrams(audits: Audits) -> Markup:
    # Side by side, the same height must mean the same number.
    share = max(float(a.state.top_count.max()) / max(1, int(a.state.n)) for a in audits.values())
    curves = {name: thinned_curve(audit.confidences) for name, audit in audits.items()}
    risk = max(float(curve.risk.max(initial=0)) for curve in curves.values())

    def reliability(name: str, audit: Audit) -> Markup:
        return _reliability(audit.state, name)

    def histogram(name: str, audit: Audit) -> Markup:
        return _figure(histogram_chart(audit.state, most=share), f"Confidence histogram, {name}")

    def risk_coverage(name: str, audit: Audit) -> Markup:
        chart = risk_chart(curves[name], n=len(audit.confidences), most=risk)
        return join([_figure(chart, f"Risk–coverage curve, {name}"), risk_table(audit.at_risk)])

    drawn = zip(_DIAGRAMS.items(), (reliability, histogram, risk_coverage), strict=True)
    blocks = [
        tag("div", tag("h3", head), _note(note), _each(audits, draw, "pair", "h4"))
        for (head, note), draw in drawn
    ]
    layout = "overview" if len(audits) == 1 else "rows"
    return _section("Diagrams", tag("div", *blocks, class_=layout))


def _figure(chart: Chart, label: str) -> Markup:
    return tag("figure", draw_svg(chart, label), tag("figcaption", legend(chart)))


def _reliability(state: CalibrationState, name: str, noun: str = "example") -> Markup:
    chart = reliability_chart(state, noun=noun)
    return join([_figure(chart, f"Reliability diagram, {name}"), _bins(state)])


def _bins(state: CalibrationState) -> Markup:
    heads = ["Confidence", "Count", "Accuracy", "95 % interval", "Mean confidence", "Gap (points)"]
    table = plain_table("Bins", heads, bin_rows(state))
    return tag("details", tag("summary", "The bins as a table"), table)


def _classes(audits: Audits) -> Markup | None:
    if not any(audit.classes for audit in audits.values()):
        return None

    def one(_: str, audit: Audit) -> Markup:
        return join([class_table(audit.classes), _grid(audit)])

    note = (
        "By predicted class: how often the model claims to be right, and how often it is. The "
        "order is by gap times predictions, so the class that costs most comes first."
    )
    return _section("Worst classes", _note(note), _each(audits, one))


def _grid(audit: Audit) -> Markup | None:
    state = audit.state
    if not state.classwise:
        return None
    worst = worst_classes(state, max(1, min(12, _MOST_BARS // state.bins.count)))
    figures = [_class_figure(state, k, audit.label_names[k]) for k in map(int, worst)]
    note = (
        "Each class against the rest: how often it is the true class, against its probability; "
        "largest classwise error first."
    )
    return join([_note(note), tag("div", *figures, class_="small-multiples")])


def _class_figure(state: CalibrationState, k: int, name: str) -> Markup:
    drawing = draw_svg(class_chart(state, k), f"Reliability of class {name}")
    return tag("figure", drawing, tag("figcaption", user_text(name)))


def _mistakes(audits: Audits) -> Markup | None:
    if not any(audit.mistakes for audit in audits.values()):
        return None
    note = "Wrong but confident: the first place to look for wrong labels and blind spots."
    if any(audit.state.ignored for audit in audits.values()):
        note += " Rows are counted from 0 and include ignored ones."
    tables = _each(audits, lambda _, audit: mistake_table(audit.mistakes))
    return _section("Most confident mistakes", _note(note), tables)


def _entities(audits: Audits) -> Markup | None:
    views = {name: audit.entities for name, audit in audits.items() if audit.entities is not None}
    if not views:
        return None

    def one(name: str, view: EntityView) -> Markup:
        drawing = _reliability(view.state, f"entities, {name}", "entity")
        types = class_table(view.types, "Entity type") if view.types else None
        tables = tag("div", types, risk_table(view.at_risk))
        return tag("div", tag("div", drawing), tables, class_="pair")

    reductions = ", ".join(dict.fromkeys(view.reduction for view in views.values()))
    made = (
        "learned on the validation split, as 'calibrant predict' gives it"
        if reductions == "learned"
        else f"the {reductions} over its words"
    )
    note = (
        "Whole entities instead of tokens: right means the exact span and type; the confidence of "
        f"an entity is {made}."
    )
    table = measure_table({name: view.measures for name, view in views.items()})
    return _section("Entities", _note(note), table, _each(views, one))


def _pixels(audits: Audits) -> Markup | None:
    views = {name: audit.pixels for name, audit in audits.items() if audit.pixels is not None}
    if not views:
        return None

    def one(name: str, view: PixelView) -> Markup:
        return pixel_figures(name, view, audits[name].label_names)

    note = (
        "The examples are the pixels of images. Intervals keep the pixels of an image together; "
        "ignored pixels are white in the maps and count nowhere."
    )
    table = measure_table({name: view.measures for name, view in views.items()})
    return _section("Images", _note(note), table, _each(views, one))


def _positive(audits: Audits) -> Markup | None:
    views = {name: audit.positive for name, audit in audits.items() if audit.positive is not None}
    if not views:
        return None

    def one(name: str, view: PositiveView) -> Markup:
        words = _note(sentence(view.explanation))
        return join([words, _reliability(view.state, f"positive class, {name}")])

    note = (
        "One score per example, that of the positive class: how often it is the true class, "
        "against what the score says."
    )
    table = measure_table({name: view.measures for name, view in views.items()})
    return _section("Positive class", _note(note), table, _each(views, one))


def _top(audits: Audits) -> Markup | None:
    views = {name: audit.top for name, audit in audits.items() if audit.top is not None}
    if not views:
        return None

    def one(name: str, view: TopView) -> Markup:
        return _reliability(view.state, f"top label, {name}")

    note = (
        "All other numbers pool the claims “label k applies” of all examples and labels. Here: the "
        "most probable label of each example."
    )
    table = measure_table({name: view.measures for name, view in views.items()})
    return _section("Top label", _note(note), table, _each(views, one))


def _per_group(audits: Audits) -> Markup | None:
    if not any(audit.per for audit in audits.values()):
        return None

    def one(_: str, audit: Audit) -> Markup:
        return join([group_table(table) for table in audit.per])

    note = (
        "Each subgroup separately, the largest gap first. It differs if its gap is unlike that of "
        "all other examples, tested at 5 % for all subgroups of a column together."
    )
    return _section("Subgroups", _note(note), _each(audits, one))


def _provenance(audits: Audits) -> Markup:
    return _section("Provenance", _each(audits, lambda _, audit: entries(audit.provenance)))


def _note(words: str | Markup) -> Markup:
    return tag("p", words, class_="note")


def _section(title: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title), *content)


def _each(
    audits: Mapping[str, Any],
    draw: Callable[[str, Any], Markup],
    class_: str = "pair",
    level: str = "h3",
) -> Markup:
    """Draw each audit, side by side under their names if there are several."""
    columns = []
    for name, audit in audits.items():
        head = tag(level, user_text(name), class_="which") if len(audits) > 1 else None
        columns.append(tag("div", head, draw(name, audit)))
    return tag("div", *columns, class_=class_)
