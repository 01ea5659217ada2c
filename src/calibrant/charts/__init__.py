"""Charts as plain data: what is drawn, before it is decided how.

Every chart is one function of a state, a curve or estimates, and returns a
:class:`~calibrant.charts.chart.Chart`. ``calibrant.plots`` draws charts with matplotlib,
``calibrant.report.svg`` as SVG for pages. Nothing here needs more than NumPy.
"""
