"""The diagrams of the report as inline SVG: reliability, histogram, classwise, risk–coverage."""

from __future__ import annotations

import numpy as np

from calibrant.metrics import CalibrationState, accuracy, ece, mean_confidence
from calibrant.metrics.selective import RiskCoverage
from calibrant.plots.curve import ReliabilityCurve, class_curve, reliability_curve
from calibrant.plots.reliability import short_count
from calibrant.report.chart import Chart, ticks
from calibrant.report.markup import Markup, join, tag
from calibrant.report.numbers import count, counted, edge, number, percent, points

__all__ = [
    "bin_rows",
    "class_diagram",
    "histogram",
    "reliability",
    "risk_coverage",
]

_FIFTHS = [(k / 5, edge(k / 5)) for k in range(6)]
_HALVES = [(k / 2, edge(k / 2)) for k in range(3)]
# Points of the risk–coverage curve that react to a hover: every second percent of coverage.
_STOPS = 50
# With more bins than this there is no room for a number above each.
_MOST_COUNTS = 15


def reliability(state: CalibrationState, name: str, noun: str = "example") -> Markup:
    """Draw accuracy per bin of confidence, with gap bars, interval bands and counts."""
    chart = Chart(420, 420)
    curve = reliability_curve(state)
    labels = chart.labels("Confidence", "Accuracy")
    grid, ideal = chart.grid(_FIFTHS, _FIFTHS), chart.line(0, 1, 0, 1, "ideal")
    said = (
        f"{counted(int(state.n), noun)} in {len(curve.filled)} of {len(curve.count)} bins; ECE "
        f"{number(ece(state))}; mean confidence {percent(mean_confidence(state))}, accuracy "
        f"{percent(accuracy(state))}."
    )
    counts = [
        chart.text((curve.lower[b] + curve.upper[b]) / 2, 1, short_count(int(curve.count[b])),
                   "count mid", dy=-6)
        for b in curve.filled
        if len(curve.count) <= _MOST_COUNTS
    ]  # fmt: skip
    shapes = [labels, grid, *_bars(chart, curve, "Confidence", "Accuracy", noun), *counts, ideal]
    return chart.svg(f"Reliability diagram, {name}", said, *shapes, _nothing(chart, state))


def class_diagram(state: CalibrationState, label: int, name: str) -> Markup:
    """Draw a small reliability diagram of one class against the rest."""
    chart = Chart(200, 190, left=26, right=8, above=8, below=22)
    curve = class_curve(state, label)
    error = np.abs(state.class_correct[label] - state.class_confidence[label]).sum() / state.n
    said = f"Share labelled so per bin of the probability of the class; ECE {number(error)}."
    bars = _bars(chart, curve, "Probability", "Labelled so", "example", empty=False)
    grid, ideal = chart.grid(_HALVES, _HALVES), chart.line(0, 1, 0, 1, "ideal")
    return chart.svg(f"Reliability of class {name}", said, grid, *bars, ideal)


def histogram(state: CalibrationState, name: str, most: float) -> Markup:
    """Draw the share of examples per bin, up to ``most``, with mean confidence and accuracy."""
    curve, n = reliability_curve(state), max(int(state.n), 1)
    scale = ticks(most)
    chart = Chart(420, 250, top=scale[-1] or 1, left=64, right=26)
    right, claimed = accuracy(state), mean_confidence(state)
    steps = [(t, f"{100 * t:g} %") for t in scale]
    shapes = [chart.labels("Confidence", "Share of examples"), chart.grid(_FIFTHS, steps)]
    for b in range(len(curve.count)):
        low, high = _inset(curve, b)
        bar = chart.box(low, high, 0, curve.count[b] / n, "bar soft")
        tip = _tip(curve, b, n, "Confidence", "Accuracy", "example")
        shapes.append(chart.mark(curve.lower[b], curve.upper[b], tip, bar))
    means = f"mean confidence {percent(claimed)}, accuracy {percent(right)}"
    said = f"{counted(int(state.n), 'example')}; {means}."
    if state.n:
        side = "over" if claimed > right else "under"
        shapes += [
            chart.box(min(right, claimed), max(right, claimed), 0, chart.top, f"between {side}"),
            chart.line(right, right, 0, chart.top, "mean-accuracy"),
            chart.line(claimed, claimed, 0, chart.top, f"mean-confidence {side}"),
        ]
    return chart.svg(f"Confidence histogram, {name}", said, *shapes, _nothing(chart, state))


def risk_coverage(curve: RiskCoverage, n: int, name: str, most: float) -> Markup:
    """Draw the error among the most confident, up to ``most``, against the share kept of the n."""
    coverage, risk, threshold = curve.coverage, curve.risk, curve.threshold
    error = float(risk[-1]) if n else float("nan")
    scale = ticks(most)
    chart = Chart(420, 250, top=scale[-1], left=64, right=26)
    fifths = [(k / 5, f"{20 * k} %") for k in range(6)]
    steps = [(t, f"{100 * t:g} %") for t in scale]
    shapes = [
        chart.labels("Coverage: share answered", "Risk: share wrong"),
        chart.grid(fifths, steps),
    ]
    if not n:
        return chart.svg(f"Risk–coverage curve, {name}", "No examples.", *shapes)
    best = np.linspace(max(1 - error, 1e-3), 1, 60)
    ideal = chart.path([0, *best], [0, *np.maximum(1 - (1 - error) / best, 0)], "perfect")
    shapes += [ideal, chart.line(0, 1, error, error, "no-selection")]
    shapes.append(chart.path(list(coverage), list(risk), "risk"))
    stops = np.unique(np.searchsorted(coverage, np.arange(1, _STOPS + 1) / _STOPS - 1e-9))
    ends = [0.0, *((coverage[stops][1:] + coverage[stops][:-1]) / 2), 1.0]
    for stop, start, end in zip(stops, ends[:-1], ends[1:], strict=True):
        dot = tag("circle", cx=chart.x(coverage[stop]), cy=chart.y(risk[stop]), r=4, class_="dot")
        tip = (
            f"Answer the {percent(coverage[stop])} most confident\n"
            f"{count(round(coverage[stop] * n))} of {counted(n, 'example')}\n"
            f"{percent(risk[stop])} of these are wrong\n"
            f"Confidence at least {edge(threshold[stop])}"
        )
        shapes.append(chart.mark(start, end, tip, dot))
    said = f"Answering everything, {percent(error)} are wrong."
    return chart.svg(f"Risk–coverage curve, {name}", said, *shapes)


def bin_rows(state: CalibrationState) -> list[list[str]]:
    """Return the non-empty bins as rows of text, for readers who cannot or do not hover."""
    curve = reliability_curve(state)
    return [
        [
            _range(curve, b),
            count(curve.count[b]),
            percent(curve.accuracy[b]),
            f"{percent(curve.low[b])} – {percent(curve.high[b])}",
            percent(curve.confidence[b]),
            points(curve.gap[b]),
        ]
        for b in curve.filled
    ]


def _bars(
    chart: Chart,
    curve: ReliabilityCurve,
    asked: str,
    found: str,
    noun: str,
    empty: bool = True,
) -> list[Markup]:
    n = int(curve.count.sum())
    marks = []
    for b in range(len(curve.count)) if empty else curve.filled:
        shapes = _bar(chart, curve, b) if curve.count[b] else []
        tip = _tip(curve, b, n, asked, found, noun)
        marks.append(chart.mark(curve.lower[b], curve.upper[b], tip, *shapes))
    return marks


def _bar(chart: Chart, curve: ReliabilityCurve, b: int) -> list[Markup]:
    low, high = _inset(curve, b)
    middle, right, claimed = (low + high) / 2, curve.accuracy[b], curve.confidence[b]
    side = "over" if claimed > right else "under"
    return [
        chart.box(low, high, 0, right, "bar"),
        chart.box(low, high, right, claimed, f"gap {side}"),
        chart.line(middle, middle, curve.low[b], curve.high[b], "interval"),
        chart.line(low, high, right, right, "level"),
    ]


def _tip(curve: ReliabilityCurve, b: int, n: int, asked: str, found: str, noun: str) -> str:
    lines = [f"{asked} {_range(curve, b)}"]
    if not curve.count[b]:
        return "\n".join([*lines, "empty"])
    gap = curve.gap[b]
    way = "Overconfident" if gap > 0 else "Underconfident"
    mean = "Mean confidence" if asked == "Confidence" else "Mean probability"
    return "\n".join(
        [
            *lines,
            f"{counted(curve.count[b], noun)} ({percent(curve.count[b] / n)})",
            f"{found} {percent(curve.accuracy[b])} "
            f"({percent(curve.low[b])} – {percent(curve.high[b])})",
            f"{mean} {percent(curve.confidence[b])}",
            f"{way} by {points(abs(gap)).lstrip('+')} points",
        ]
    )


def _range(curve: ReliabilityCurve, b: int) -> str:
    return f"{edge(curve.lower[b])} – {edge(curve.upper[b])}"


def _inset(curve: ReliabilityCurve, b: int) -> tuple[float, float]:
    """Return the sides of a bar: its bin minus a sliver that separates neighbours."""
    sliver = 0.04 * (curve.upper[b] - curve.lower[b])
    return float(curve.lower[b] + sliver), float(curve.upper[b] - sliver)


def _nothing(chart: Chart, state: CalibrationState) -> Markup:
    words = chart.text(0.5, chart.top / 2, "no examples", "axis mid")
    return join([] if state.n else [words])
