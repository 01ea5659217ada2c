"""Diagrams for papers: each function draws a state on matplotlib axes and returns them.

``reliability_diagram(state).figure.savefig("reliability.pdf")`` is enough. Nothing here
touches pyplot or its global state, so it is safe in servers and threads; matplotlib is imported
when the first diagram is drawn.
"""

from calibrant.plots.comparisons import Point, Series, series_diagram, shift_diagram, trade_off
from calibrant.plots.diagrams import (
    classwise_grid,
    confidence_histogram,
    confidence_map,
    confidence_maps,
    reliability_diagram,
    risk_coverage,
)

__all__ = [
    "Point",
    "Series",
    "classwise_grid",
    "confidence_histogram",
    "confidence_map",
    "confidence_maps",
    "reliability_diagram",
    "risk_coverage",
    "series_diagram",
    "shift_diagram",
    "trade_off",
]
