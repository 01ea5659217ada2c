"""The risk–coverage curve: the error among the most confident, against the share kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.metrics import Confidences
from calibrant.metrics.selective import RiskCoverage, risk_coverage_curve
from calibrant.plots.canvas import axes, frame, legend_below, say_empty
from calibrant.plots.palette import ACCURACY, INK, MUTED
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["risk_coverage", "thinned_curve"]


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
    curve = thinned_curve(source)
    coverage, risk = curve.coverage, curve.risk
    ax = axes(ax, 3.6, 2.6)
    frame(ax, "Coverage (% answered)", "Risk (% of these wrong)", title)
    ax.set_xlim(0, 100)
    if not len(risk):
        ax.set_ylim(0, 100)
        say_empty(ax)
        return ax
    ideal_coverage = np.linspace(0, 1, 201)[1:]
    ideal = np.maximum(0, 1 - (1 - risk[-1]) / ideal_coverage)
    names = ["By confidence", "Perfect ranking", f"No selection: {100 * risk[-1]:.1f} %"]
    marker = "o" if len(coverage) == 1 else None  # A line needs more than one point.
    ax.plot(100 * coverage, 100 * risk, ACCURACY, lw=1.6, marker=marker, ms=4, label=names[0])
    ax.plot(100 * ideal_coverage, 100 * ideal, MUTED, linewidth=1, label=names[1])
    ax.axhline(100 * risk[-1], color=INK, lw=0.9, linestyle=(0, (1, 2)), label=names[2])
    ax.set_ylim(0, max(1.08 * 100 * float(risk.max()), 1))
    legend_below(ax, names)
    return ax


def thinned_curve(source: Confidences | Predictions, most: int = 500) -> RiskCoverage:
    """Return the risk–coverage curve at up to ``most`` steps, evenly spread in coverage.

    It always includes the first and the last step, and every step belongs to the whole curve.

    >>> thinned_curve(Confidences([0.9, 0.8, 0.7, 0.6], [True] * 4), most=2).coverage
    array([0.25, 1.  ])
    """
    curve = risk_coverage_curve(source)
    if len(curve.risk) <= most:
        return curve
    wanted = np.linspace(curve.coverage[0], 1, most)
    kept = np.unique(np.searchsorted(curve.coverage, wanted - 1e-12))
    return RiskCoverage(curve.threshold[kept], curve.coverage[kept], curve.risk[kept])
