"""The histogram of confidence, with its mean and the accuracy as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.metrics import accuracy, mean_confidence
from calibrant.plots.canvas import axes, frame, legend_below, say_empty
from calibrant.plots.curve import DiagramSource, diagram_state
from calibrant.plots.palette import ACCURACY, INK, MUTED, OVERCONFIDENT, UNDERCONFIDENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["confidence_histogram"]


def confidence_histogram(
    source: DiagramSource, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the share of examples per bin of confidence, with mean confidence and accuracy.

    The distance between the two lines is the average over- or underconfidence of the model;
    the bars show where its examples lie (Guo et al. 2017, Figure 1, top).

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> confidence_histogram(p).get_ylabel()
    'Share of examples (%)'
    """
    state = diagram_state("confidence_histogram", source)
    ax = axes(ax, 3.6, 2.6)
    edges = state.bins.edges()
    width, n = 1 / state.bins.count, int(state.n)
    share = 100 * state.top_count / max(n, 1)
    ax.bar((edges[:-1] + edges[1:]) / 2, share, width=0.92 * width, color=ACCURACY, alpha=0.45)
    frame(ax, "Confidence", "Share of examples (%)", title)
    ax.set(xlim=(0, 1), ylim=(0, 1.08 * max(share.max(), 1)))
    if not n:
        say_empty(ax)
        return ax
    right, claimed = accuracy(state), mean_confidence(state)
    warn = OVERCONFIDENT if claimed > right else UNDERCONFIDENT
    ax.axvspan(min(right, claimed), max(right, claimed), color=warn, alpha=0.12, linewidth=0)
    entries = [f"Accuracy {100 * right:.1f} %", f"Mean confidence {100 * claimed:.1f} %"]
    ax.axvline(right, color=INK, linewidth=1.4, label=entries[0])
    ax.axvline(claimed, color=warn, linewidth=1.4, linestyle=(0, (4, 2)), label=entries[1])
    legend_below(ax, entries)
    ax.set_title(f"n = {n:,}", fontsize="x-small", color=MUTED, loc="right")
    return ax
