"""Charts as plain data: what is drawn, before it is decided how.

Every chart is one function of a state, a curve or estimates, and returns a
:class:`~calibrant.charts.chart.Chart`. ``calibrant.plots`` draws charts with matplotlib,
``calibrant.report.svg`` as SVG for pages. Nothing here needs more than NumPy.
"""

from calibrant.charts.calibration import (
    class_chart,
    histogram_chart,
    image_error_chart,
    reliability_chart,
    risk_chart,
)
from calibrant.charts.chart import Axis, Chart, Curve, Place
from calibrant.charts.comparison import curve_chart, rank_chart

__all__ = [
    "Axis", "Chart", "Curve", "Place", "class_chart", "curve_chart", "histogram_chart",
    "image_error_chart", "rank_chart", "reliability_chart", "risk_chart",
]  # fmt: skip
