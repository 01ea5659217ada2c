"""How a run copes with corrupted data: its score and ECE against the strength."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant.arguments import check_kind
from calibrant.errors import InputError
from calibrant.plots.canvas import new_figure
from calibrant.plots.series import Series, series_diagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["shift_diagram"]


def shift_diagram(
    results: Mapping[str, Any],
    score: str = "accuracy",
    score_name: str = "Accuracy",
    mapped: str = "temperature",
) -> Figure:
    """Draw three panels: the score, and the ECE as trained and with a map; one line per kind.

    ``results`` are those of :func:`calibrant.experiments.evaluation.evaluate` or of a record:
    ``{map: {"test": …, "shift": {"typos-1": …}}}``. Strength 0 is the clean test.

    >>> numbers = {"accuracy": 0.9, "ece": 0.05}
    >>> part = {"test": numbers, "shift": {"typos-5": {"accuracy": 0.6, "ece": 0.2}}}
    >>> figure = shift_diagram({"identity": part, "temperature": part})
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['Accuracy', 'ECE as trained', 'ECE with temperature']
    """
    check_kind("shift_diagram", results, dict)
    for kind in ("identity", mapped):
        if kind not in results:
            raise InputError(f"shift_diagram needs the results of the map '{kind}', got none.")
    figure = new_figure(10.5, 3.2)
    raw, cooled = (_lines(results[kind], "ece") for kind in ("identity", mapped))
    panels = (
        (score_name, score_name, _lines(results["identity"], score)),
        ("ECE as trained", "ECE", raw),
        (f"ECE with {mapped}", "ECE", cooled),
    )
    highest = max((y for line in (*raw, *cooled) for y in line.y), default=1.0)
    for place, (title, label, lines) in enumerate(panels):
        ax = figure.add_subplot(1, len(panels), place + 1)
        if place:  # One scale makes the two comparable.
            ax.set_ylim(0, 1.05 * highest or 1.0)
        series_diagram(lines, ax, x_label="Strength", y_label=label, title=title)
    return figure


def _lines(part: Mapping[str, Any], metric: str) -> list[Series]:
    points: dict[str, dict[int, float]] = {}
    for name, numbers in part.get("shift", {}).items():
        kind, _, strength = name.rpartition("-")
        if kind and strength.isdigit() and math.isfinite(numbers[metric]):
            points.setdefault(kind, {0: part["test"][metric]})[int(strength)] = numbers[metric]
    return [
        Series(kind, sorted(found), [found[x] for x in sorted(found)], [math.nan] * len(found))
        for kind, found in points.items()
    ]
