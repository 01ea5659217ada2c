"""Average ranks on the page: a row per method, and the band in which none differs from the best."""

from __future__ import annotations

from calibrant.report.chart import Chart
from calibrant.report.markup import Markup, tag
from calibrant.study.panels import Panel

__all__ = ["draw_ranks"]

_ROW = 19  # Units from one method to the next.


def draw_ranks(panel: Panel, figure: str) -> Markup:
    """One row per curve, in their order."""
    count = len(panel.curves)
    chart = Chart(560, 70 + _ROW * count, top=float(count), left=14, right=250, above=10)

    def across(rank: float) -> float:
        return min(max((rank - 0.8) / (count - 0.6), 0.0), 1.0)

    best = min(curve.places[0].x for curve in panel.curves)
    band = chart.box(across(best), across(best + panel.critical_difference), 0, count, "band")
    steps = [(across(rank), str(rank)) for rank in range(1, count + 1)]
    rows = []
    for place, curve in enumerate(panel.curves):
        rank, height = curve.places[0].x, count - place - 0.5
        told = "not told from the best" if rank - best < panel.critical_difference else "worse"
        rows.append(
            tag(
                "g",
                tag("circle", cx=chart.x(across(rank)), cy=chart.y(height), r=4.5,
                    class_="spot s0"),
                chart.text(1, height, curve.label, "tick", dx=10, dy=4),
                chart.box(0, 1, height - 0.5, height + 0.5, "hit"),
                data_tip=f"{curve.label}\nAverage rank {rank:.2f}\n{told.capitalize()}",
            )
        )  # fmt: skip
    said = f"{count} methods, the best with rank {best:.2f}."
    label = f"{figure}, {panel.title}"
    axis = chart.labels("Average rank, less is better", "")
    return chart.svg(label, said, band, chart.grid(steps, []), axis, *rows)
