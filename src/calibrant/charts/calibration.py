"""The charts of one set of predictions: reliability, histogram, risk–coverage, errors of images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from calibrant.charts.axes import share_axis, value_axis
from calibrant.charts.chart import Bars, Chart, Dots, Hover, Line, Mark, Texts, segments
from calibrant.charts.curve import ReliabilityCurve, class_curve, reliability_curve
from calibrant.charts.numbers import count, counted, edge, number, percent, points, short_count
from calibrant.metrics import CalibrationState, accuracy, ece, mean_confidence
from calibrant.metrics.metric import points as size_in_points
from calibrant.metrics.selective import RiskCoverage, threshold_text

__all__ = [
    "bin_rows", "class_chart", "histogram_chart", "image_error_chart", "reliability_chart",
    "risk_chart",
]  # fmt: skip

# With more bins than this there is no room for a number above each.
_MOST_COUNTS = 25
_NOTHING = "no examples"
# Points of the risk–coverage curve that react to a hover: every second percent of coverage.
_STOPS = 50
_IMAGE_BARS = 20
_ROUNDING = 1e-9  # A smaller gap comes from arithmetic.


def reliability_chart(
    state: CalibrationState,
    *,
    level: float = 0.95,
    counts: bool = True,
    noun: str = "example",
    title: str = "",
) -> Chart:
    """Chart accuracy per bin of confidence, with gaps, intervals and counts."""
    curve = reliability_curve(state, level)
    b = curve.filled
    marks = _bars(curve) if state.n else []
    if counts and len(curve.count) <= _MOST_COUNTS:
        words = tuple(short_count(round(float(n))) for n in curve.count[b])
        marks.append(Texts("count", curve.middle[b], np.ones(len(b)), words))
    marks += _bin_hovers(curve, range(len(curve.count)), ("Confidence", "Accuracy", noun))
    return Chart(
        share_axis("Confidence"),
        share_axis("Accuracy"),
        tuple(marks),
        title,
        f"{counted(round(float(state.n)), noun)} in {len(b)} of {len(curve.count)} bins; ECE "
        f"{number(ece(state))}; mean confidence {percent(mean_confidence(state))}, accuracy "
        f"{percent(accuracy(state))}.",
        "square",
        _bar_keys(curve, level) if state.n else (),
        f"ECE {ece(state):.4f}" if state.n else "",
        "" if state.n else _NOTHING,
    )


def class_chart(
    state: CalibrationState, label: int, *, level: float = 0.95, title: str = ""
) -> Chart:
    """Chart the share labelled k per bin of the probability of class k."""
    curve = class_curve(state, label, level)
    error = np.abs(state.class_correct[label] - state.class_confidence[label]).sum() / state.n
    hovers = _bin_hovers(curve, curve.filled, ("Probability", "Labelled so", "example"))
    return Chart(
        share_axis("Probability of the class", 2),
        share_axis("Share labelled so", 2),
        (*_bars(curve), *hovers),
        title,
        f"Share labelled so per bin of the probability of the class; ECE {number(error)}.",
        "small",
        note=f"ECE {error:.4f}",
    )


def histogram_chart(
    state: CalibrationState, *, most: float | None = None, title: str = ""
) -> Chart:
    """Chart the share of examples per bin in percent, with mean confidence and accuracy.

    ``most`` is the largest share that the axis must reach, so that charts side by side have one
    scale.
    """
    curve, n = reliability_curve(state), max(round(float(state.n)), 1)
    shares = 100 * curve.count / n
    x0, x1 = curve.inset
    y = value_axis(
        "Share of examples (%)", 100 * most if most else float(shares.max()), 1 if state.n else 100
    )
    marks: list[Mark] = [Bars("bar soft", x0, x1, 0, shares)]
    right, claimed = accuracy(state), mean_confidence(state)
    side = "over" if claimed > right else "under"
    if state.n:
        marks += [
            Bars(f"between {side}", min(right, claimed), max(right, claimed), 0, y.high),
            segments("mean-accuracy", right, right, 0, y.high),
            segments(f"mean-confidence {side}", claimed, claimed, 0, y.high),
        ]
    words = ("Confidence", "Accuracy", "example")
    keys = (
        ("mean-accuracy", f"Accuracy {percent(right)}"),
        (f"mean-confidence {side}", f"Mean confidence {percent(claimed)}"),
    )
    return Chart(
        share_axis("Confidence"),
        y,
        (*marks, *_bin_hovers(curve, range(len(curve.count)), words, y.high)),
        title,
        f"{counted(round(float(state.n)), 'example')}; mean confidence {percent(claimed)}, "
        f"accuracy {percent(right)}.",
        keys=keys if state.n else (),
        note=f"n = {count(round(float(state.n)))}" if state.n else "",
        empty="" if state.n else _NOTHING,
    )


def risk_chart(
    curve: RiskCoverage, *, n: int | None = None, most: float | None = None, title: str = ""
) -> Chart:
    """Chart the error among the most confident against the share kept, in percent.

    ``n`` is the number of examples, for the tips; ``most`` the largest risk that the axis must
    reach.
    """
    coverage, risk = 100 * curve.coverage, 100 * curve.risk
    x = value_axis("Coverage (% answered)", 100)
    largest = float(risk.max(initial=0)) if most is None else 100 * most
    y = value_axis("Risk (% of these wrong)", largest if len(risk) else 100, 1)
    if not len(risk):
        return Chart(x, y, (), title, "No examples.", empty=_NOTHING)
    error = float(curve.risk[-1])
    return Chart(
        x,
        y,
        (
            Line("perfect", *_perfect(error)),
            segments("no-selection", 0, 100, 100 * error, 100 * error),
            Line("risk", coverage, risk),
            # A line needs more than one point to be seen.
            *([Dots("risk", coverage, risk)] if len(risk) == 1 else []),
            *_risk_hovers(curve, n, y.high),
        ),
        title,
        f"Answering everything, {percent(error)} are wrong.",
        keys=(
            ("risk", "By confidence"),
            ("perfect", "Perfect ranking"),
            ("no-selection", f"No selection: {percent(error)}"),
        ),
    )


def image_error_chart(errors: Sequence[float]) -> Chart:
    """Chart the share of images by their own ECE."""
    values = np.asarray(errors, dtype=float)
    x = value_axis("ECE of an image", float(values.max(initial=0)), 0.01)
    found, edges = np.histogram(values, _IMAGE_BARS, (0, x.high))
    shares = 100 * found / max(1, len(values))
    y = value_axis("Share of images (%)", float(shares.max(initial=0)), 1)
    sliver = 0.04 * (edges[1] - edges[0])
    bars = Bars("bar soft", edges[:-1] + sliver, edges[1:] - sliver, 0, shares)
    hovers = [
        Hover(f"ECE {low:.3g} – {high:.3g}\n{counted(images, 'image')}", low, high, 0, y.high)
        for low, high, images in zip(edges[:-1], edges[1:], found, strict=True)
    ]
    middle = float(np.median(values)) if len(values) else float("nan")
    described = f"{counted(len(values), 'image')}; median ECE {number(middle)}."
    return Chart(x, y, (bars, *hovers), "", described, empty="" if len(values) else "no images")


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


def _bars(curve: ReliabilityCurve) -> list[Mark]:
    """Return accuracy bars, gaps over them, intervals, levels, and the diagonal."""
    b = curve.filled
    x0, x1 = (side[b] for side in curve.inset)
    middle, right, claimed = curve.middle[b], curve.accuracy[b], curve.confidence[b]
    foot, top = np.minimum(right, claimed), np.maximum(right, claimed)
    sides = (("gap over", claimed > right), ("gap under", claimed < right))
    return [
        Bars("bar", x0, x1, 0, right),
        *(Bars(role, x0[at], x1[at], foot[at], top[at]) for role, at in sides),
        segments("interval", middle, middle, curve.low[b], curve.high[b]),
        segments("level", x0, x1, right, right),
        segments("ideal", 0, 1, 0, 1),
    ]


def _bar_keys(curve: ReliabilityCurve, level: float) -> tuple[tuple[str, str], ...]:
    gaps = curve.gap[curve.filled]
    keys = [("bar", "Accuracy")]
    keys += [("gap over", "Overconfident")] if (gaps > _ROUNDING).any() else []
    keys += [("gap under", "Underconfident")] if (gaps < -_ROUNDING).any() else []
    return (*keys, ("interval", f"{100 * level:g} % interval"), ("ideal", "Perfect"))


def _perfect(error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve of a perfect ranking: risk max(0, 1 − (1 − error) / coverage)."""
    coverage = np.linspace(max(1 - error, 1e-3), 1, 100)
    risk = np.maximum(0, 1 - (1 - error) / coverage)
    return 100 * np.append(0.0, coverage), 100 * np.append(0.0 if error < 1 else 1.0, risk)


def _bin_hovers(
    curve: ReliabilityCurve, bins: Iterable[int], words: tuple[str, str, str], top: float = 1.0
) -> list[Hover]:
    return [
        Hover(_bin_tip(curve, b, *words), float(curve.lower[b]), float(curve.upper[b]), 0, top)
        for b in bins
    ]


def _bin_tip(curve: ReliabilityCurve, b: int, claimed: str, found: str, noun: str) -> str:
    head = f"{claimed} {_range(curve, b)}"
    if not curve.count[b]:
        return f"{head}\nempty"
    share, gap = curve.count[b] / curve.count.sum(), curve.gap[b]
    return "\n".join(
        [
            head,
            f"{counted(curve.count[b], noun)} ({percent(share)})",
            f"{found} {percent(curve.accuracy[b])} "
            f"({percent(curve.low[b])} – {percent(curve.high[b])})",
            f"Mean {claimed.lower()} {percent(curve.confidence[b])}",
            _direction(float(gap)),
        ]
    )


def _direction(gap: float) -> str:
    """Name the direction of a gap between confidence and accuracy, if there is one.

    >>> _direction(0.0004), _direction(-0.1), _direction(0.0)
    ('Overconfident by 0.04 points', 'Underconfident by 10.0 points', 'No gap')
    """
    if abs(gap) < _ROUNDING:
        return "No gap"
    return f"{'Over' if gap > 0 else 'Under'}confident by {size_in_points(gap)}"


def _risk_hovers(curve: RiskCoverage, n: int | None, top: float) -> list[Hover]:
    coverage = curve.coverage
    stops = np.unique(np.searchsorted(coverage, np.arange(1, _STOPS + 1) / _STOPS - 1e-9))
    ends = [0.0, *((coverage[stops][1:] + coverage[stops][:-1]) / 2), 1.0]
    return [
        Hover(
            f"Answer the {percent(coverage[stop])} most confident\n"
            + (f"{count(round(coverage[stop] * n))} of {counted(n, 'example')}\n" if n else "")
            + f"{percent(curve.risk[stop])} of these are wrong\n"
            f"Confidence at least {_least(curve.threshold[stop])}",
            100 * start,
            100 * end,
            0,
            top,
            (100 * coverage[stop], 100 * curve.risk[stop]),
        )
        for stop, start, end in zip(stops, ends[:-1], ends[1:], strict=True)
    ]


def _least(threshold: float) -> str:
    """Format a threshold with three decimals, or with as many as tell it from 0 and 1.

    >>> _least(0.90049), _least(0.9996), _least(1.0), _least(0.0002)
    ('0.9', '0.9996', '1', '0.0002')
    """
    short = edge(threshold)
    exact = threshold in (0, 1) or short not in ("0", "1")
    return short if exact else threshold_text(float(threshold)).replace("all", "0")


def _range(curve: ReliabilityCurve, b: int) -> str:
    """Format the edges of a bin, with as many decimals as tell them apart."""
    low, high = float(curve.lower[b]), float(curve.upper[b])
    digits = max(3, math.ceil(-math.log10(high - low)))
    return f"{edge(low, digits)} – {edge(high, digits)}"
