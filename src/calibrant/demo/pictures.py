"""The pictures of the demo: performance against calibration, and what confidences are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.calibrators import Calibrator
from calibrant.demo.telling import Records, over_seeds
from calibrant.metrics import accumulate
from calibrant.plots import Point, reliability_diagram, trade_off
from calibrant.plots.canvas import new_figure
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_reliability", "draw_trade_off"]


def draw_trade_off(records: Records) -> Figure:
    """F1 against ECE of each variant, as trained and temperature-scaled."""
    figure = new_figure(8.6, 3.6)
    maps = {"identity": "As trained", "temperature": "Temperature-scaled"}
    for ax, (map_, title) in zip(figure.subplots(1, 2), maps.items(), strict=True):
        points = []
        for name, runs in records.items():
            f1, ece = over_seeds(runs, "entity_f1"), over_seeds(runs, "ece", map_)
            points.append(Point(name, ece.mean, f1.mean, ece.half, f1.half))
        trade_off(points, ax, title=title)
    return figure


def draw_reliability(test: Predictions, ood: Predictions, temperature: Calibrator) -> Figure:
    """In-domain and out of it, before and after temperature scaling."""
    drawn = {
        "In-domain, as trained": test,
        "In-domain, temperature-scaled": temperature.transform(test),
        "Out of domain, as trained": ood,
        "Out of domain, temperature-scaled": temperature.transform(ood),
    }
    figure = new_figure(7.2, 7.4)
    for ax, (title, part) in zip(figure.subplots(2, 2).flat, drawn.items(), strict=True):
        reliability_diagram(accumulate(part), ax, title=title, counts=False)
    return figure
