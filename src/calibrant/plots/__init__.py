"""Diagrams for papers: each function draws a state on matplotlib axes and returns them.

``reliability_diagram(state).figure.savefig("reliability.pdf")`` is enough. Nothing here
touches pyplot or its global state, so it is safe in servers and threads; matplotlib is imported
when the first diagram is drawn.
"""

from calibrant.plots.classwise import classwise_grid
from calibrant.plots.confidence_map import confidence_map, confidence_maps
from calibrant.plots.histogram import confidence_histogram
from calibrant.plots.reliability import reliability_diagram
from calibrant.plots.selective import risk_coverage
from calibrant.plots.series import Series, series_diagram
from calibrant.plots.shift import shift_diagram
from calibrant.plots.trade_off import Point, trade_off

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
