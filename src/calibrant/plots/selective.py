"""The risk–coverage curve: the error among the most confident, against how many are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.metrics import Confidences
from calibrant.metrics.confidences import confidences as confidences_of
from calibrant.plots.canvas import axes, frame, legend_below, say_empty
from calibrant.plots.palette import ACCURACY, INK, MUTED
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve_points", "risk_coverage"]


def risk_coverage(
    source: Confidences | Predictions, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw risk against coverage (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017).

    Risk is the share of wrong answers among the most confident ones that are kept, coverage the
    share that is kept. The dotted line is the error without any selection, the grey one what a
    perfect ranking of the same errors would reach.

    >>> risk_coverage(Confidences([0.9, 0.8], [True, False])).get_xlabel()
    'Coverage (% answered)'
    """
    state = confidences_of(source)
    ax = axes(ax, 3.6, 2.6)
    frame(ax, "Coverage (% answered)", "Risk (% of these wrong)", title)
    ax.set_xlim(0, 100)
    if not len(state):
        ax.set_ylim(0, 100)
        say_empty(ax)
        return ax
    coverage, risk, _ = curve_points(state)
    ideal_coverage = np.linspace(0, 1, 201)[1:]
    ideal = np.maximum(0, 1 - (1 - risk[-1]) / ideal_coverage)
    names = ["By confidence", "Perfect ranking", f"No selection: {100 * risk[-1]:.1f} %"]
    marker = "o" if len(coverage) == 1 else None  # A line through one point shows nothing.
    ax.plot(100 * coverage, 100 * risk, ACCURACY, lw=1.6, marker=marker, ms=4, label=names[0])
    ax.plot(100 * ideal_coverage, 100 * ideal, MUTED, linewidth=1, label=names[1])
    ax.axhline(100 * risk[-1], color=INK, lw=0.9, linestyle=(0, (1, 2)), label=names[2])
    ax.set_ylim(0, max(1.08 * 100 * float(risk.max()), 1))
    legend_below(ax, names)
    return ax


def curve_points(state: Confidences, most: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coverage, risk and confidence threshold at no more than ``most`` steps of the curve.

    Tied confidences are one step: no threshold can part them.

    >>> curve_points(Confidences([0.9, 0.8, 0.8], [True, False, True]))
    (array([0.33333333, 1.        ]), array([0.        , 0.33333333]), array([0.9, 0.8]))
    """
    ranked = state.ascending()
    confidence, wrong = ranked.confidence[::-1], ~ranked.correct[::-1]
    ends = np.flatnonzero(np.append(confidence[1:] != confidence[:-1], True))[: len(state)]
    # Evenly spread in coverage, always with the first and the last step.
    wanted = np.linspace(1, len(state), most) - 1
    ends = ends[np.unique(np.searchsorted(ends, wanted))] if len(ends) > most else ends
    kept = ends + 1
    return kept / len(state), np.cumsum(wrong)[ends] / kept, confidence[ends]
