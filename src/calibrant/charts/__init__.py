"""Charts as plain data, independent of how they are drawn.

Every chart is one function of a state, a curve or estimates, and returns a
:class:`~calibrant.charts.chart.Chart`. ``calibrant.plots`` draws charts with matplotlib,
``calibrant.report.svg`` as SVG for pages. Nothing here needs more than NumPy.
"""
