"""The reliability diagram: accuracy against confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.metrics import ece
from calibrant.plots.canvas import axes, frame, legend_below, say_empty
from calibrant.plots.curve import (
    DiagramSource,
    ReliabilityCurve,
    diagram_state,
    reliability_curve,
)
from calibrant.plots.palette import (
    ACCURACY,
    INK,
    MUTED,
    OVERCONFIDENT,
    OVERCONFIDENT_TINT,
    UNDERCONFIDENT,
    UNDERCONFIDENT_TINT,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_bars", "reliability_diagram", "short_count"]

# With more bins than this there is no room for a number above each.
_MOST_COUNTS = 25


def reliability_diagram(
    source: DiagramSource,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    counts: bool = True,
    legend: bool = True,
    title: str | None = None,
) -> Axes:
    """Draw accuracy per bin of confidence (DeGroot & Fienberg 1983; Guo et al. 2017).

    Bars are the accuracy of each bin; the coloured part is its gap to the mean confidence, orange
    where confidence exceeds accuracy and green where it falls short; the upright band is the
    Wilson interval of the accuracy at ``level``; the small numbers above count the examples.
    ``source`` is predictions, confidences or a state.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> reliability_diagram(p).get_xlabel()
    'Confidence'
    """
    state = diagram_state("reliability_diagram", source)
    ax = axes(ax)
    curve = reliability_curve(state, level)
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    draw_bars(ax, curve, level)
    frame(ax, "Confidence", "Accuracy")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    shown = counts and len(curve.filled) and state.bins.count <= _MOST_COUNTS
    if title:
        ax.set_title(title, fontsize="medium", color=INK, loc="left", pad=14 if shown else 6)
    if not state.n:
        say_empty(ax)
        return ax
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
    ax.text(0.03, 0.93, f"ECE {ece(state):.4f}", fontsize="small", color=INK, bbox=box)
    if shown:
        _draw_counts(ax, curve)
    if legend:
        gaps = curve.gap[curve.filled]
        sides = {"Overconfident": (gaps > 0).any(), "Underconfident": (gaps < 0).any()}
        occurring = [name for name, occurs in sides.items() if occurs]
        legend_below(ax, ["Accuracy", *occurring, f"{100 * level:g} % interval"])
    return ax


def draw_bars(ax: Axes, curve: ReliabilityCurve, level: float) -> None:
    """Draw accuracy bars, gap bars over them and interval bands, for non-empty bins."""
    b = curve.filled
    width, centre = curve.upper[b] - curve.lower[b], (curve.lower[b] + curve.upper[b]) / 2
    style: dict[str, Any] = {"width": 0.92 * width, "linewidth": 0}
    ax.bar(centre, curve.accuracy[b], color=ACCURACY, label="Accuracy", **style)
    over = curve.gap[b] > 0
    for side, tint, edge, label in (
        (over, OVERCONFIDENT_TINT, OVERCONFIDENT, "Overconfident"),
        (~over, UNDERCONFIDENT_TINT, UNDERCONFIDENT, "Underconfident"),
    ):
        inner = {**style, "width": style["width"][side], "linewidth": 0.7}
        foot = np.minimum(curve.accuracy[b], curve.confidence[b])[side]
        height = np.abs(curve.gap[b])[side]
        ax.bar(centre[side], height, bottom=foot, color=tint, edgecolor=edge, label=label, **inner)
    label = f"{100 * level:g} % interval"
    ax.vlines(centre, curve.low[b], curve.high[b], color=INK, lw=3, alpha=0.3, label=label)
    ax.hlines(curve.accuracy[b], centre - 0.46 * width, centre + 0.46 * width, color=INK, lw=1.1)


def short_count(count: int) -> str:
    """Format a count in at most four characters.

    >>> [short_count(c) for c in (0, 999, 1234, 56_789, 999_999, 2_500_000, 3_000_000_000)]
    ['0', '999', '1.2k', '57k', '1M', '2.5M', '3G']
    """
    value, unit = float(count), ""
    for unit in ("", "k", "M", "G", "T"):  # noqa: B007
        if value < 999.5:
            break
        value /= 1000
    text = f"{value:.1f}" if unit and value < 9.95 else f"{value:.0f}"
    return text.removesuffix(".0") + unit


def _draw_counts(ax: Axes, curve: ReliabilityCurve) -> None:
    few = len(curve.count) <= 12
    for b in curve.filled:
        ax.annotate(
            short_count(int(curve.count[b])),
            ((curve.lower[b] + curve.upper[b]) / 2, 1.0),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            annotation_clip=False,
            fontsize="xx-small" if few else 5,
            color=MUTED,
        )
