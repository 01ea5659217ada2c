"""Diagrams of one set of predictions: reliability, histogram, classes, risk, confidence maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.arguments import check_kind, check_whole, takes_arrays
from calibrant.charts import scenes as data
from calibrant.charts.calibration import class_chart, histogram_chart, reliability_chart, risk_chart
from calibrant.charts.curve import DiagramSource, diagram_state, thinned_curve, worst_classes
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.metrics import CalibrationState, Confidences
from calibrant.metrics.segmentation_example import Scene
from calibrant.plots.drawing import SIZES, draw_chart, new_figure, plain
from calibrant.plots.styles import INK, MUTED
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 24  # Letters of a class name that fit over a small chart.


@takes_arrays
def reliability_diagram(
    source: DiagramSource,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    counts: bool = True,
    legend: bool = True,
    title: str | None = None,
) -> Axes:
    """Draw accuracy per bin of confidence (DeGroot & Fienberg 1983; Guo et al. 2017).

    Bars are the accuracy of each bin; the coloured part is its gap to the mean confidence, orange
    where confidence exceeds accuracy and green where it falls short; the upright band is the
    Wilson interval of the accuracy at ``level``; the small numbers above count the examples.
    ``source`` is predictions, confidences or a state.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> reliability_diagram(p).get_xlabel()
    'Confidence'
    """
    state = diagram_state("reliability_diagram", source)
    chart = reliability_chart(state, level=level, counts=counts, title=title or "")
    return draw_chart(chart, ax, legend=legend)


@takes_arrays
def confidence_histogram(
    source: DiagramSource, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the share of examples per bin of confidence, with mean confidence and accuracy.

    The distance between the two lines is the average over- or underconfidence of the model;
    the bars show where its examples lie (Guo et al. 2017, Figure 1, top).

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> confidence_histogram(p).get_ylabel()
    'Share of examples (%)'
    """
    state = diagram_state("confidence_histogram", source)
    return draw_chart(histogram_chart(state, title=title or ""), ax)


@takes_arrays
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
    return draw_chart(risk_chart(curve, title=title or ""), ax)


@takes_arrays
def classwise_grid(
    source: CalibrationState | Predictions,
    label_names: Sequence[str] | None = None,
    figure: Figure | None = None,
    *,
    most: int = 9,
    columns: int = 3,
    level: float = 0.95,
) -> Figure:
    """Draw p_k against the share labelled k for the ``most`` worst classes, and return the figure.

    Classes are ranked by one-against-rest ECE, whose mean over all K is ``classwise_ece`` (Kull et
    al. 2019). ``figure`` may be a subfigure of a larger one.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> [ax.get_title(loc="left") for ax in classwise_grid(p, ["cat", "dog"]).axes]
    ['cat', 'dog']
    """
    check_kind("classwise_grid", source, Predictions, CalibrationState)
    if isinstance(source, Predictions) and label_names is None:
        label_names = source.label_names
    state = diagram_state("classwise_grid", source)
    if label_names is not None and len(label_names) != state.classes:
        raise InputError(
            f"classwise_grid expects {state.classes} label names, got {len(label_names)}."
        )
    names = [str(k) for k in range(state.classes)] if label_names is None else label_names
    charts = [
        class_chart(state, int(k), level=level, title=_short(names[k]))
        for k in worst_classes(state, most)
    ]
    # Without any example, one empty chart says so.
    charts = charts or [reliability_chart(state)]
    columns = max(1, min(columns, len(charts)))
    rows = math.ceil(len(charts) / columns)
    width, height = SIZES["small"]
    figure = figure or new_figure(width * columns, height * rows)
    for place, chart in enumerate(charts, start=1):
        ax = draw_chart(chart, figure.add_subplot(rows, columns, place))
        ax.label_outer(remove_inner_ticks=True)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def confidence_map(
    scene: Scene, classes: int, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the confidence of each pixel, deeper where it is higher, with its scale.

    The scale runs from 1 / K, the lowest possible confidence with K classes, to 1.

    >>> image, mask = np.zeros((2, 2), np.uint8), np.eye(2, dtype=int)
    >>> scene = Scene.from_logits(image, np.zeros((2, 2, 4)), mask)
    >>> confidence_map(scene, classes=4).get_title(loc="left")
    'Confidence'
    """
    check_kind("confidence_map", scene, Scene)
    check_whole("confidence_map", "a whole number of classes ≥ 2", classes, 2)
    ax = new_figure(3.6, 3.5).add_subplot() if ax is None else ax
    _show(ax, data.confidence_map_of(scene.confidence, classes), title or "Confidence")
    colours = require("matplotlib.colors", "plots", "Drawing a diagram")
    steps = np.linspace(1 / classes, 1, 64)
    palette = colours.ListedColormap(data.confidence_map_of(steps[None], classes)[0] / 255)
    scale = require("matplotlib.cm", "plots", "Drawing a diagram").ScalarMappable(
        colours.Normalize(1 / classes, 1), palette
    )
    bar = ax.figure.colorbar(scale, ax=ax, shrink=0.8, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize="xx-small", labelcolor=MUTED)
    return ax


def confidence_maps(
    scenes: Sequence[Scene],
    label_names: Sequence[str],
    figure: Figure | None = None,
    *,
    state: CalibrationState | None = None,
) -> Figure:
    """Draw each scene as image, truth, prediction, confidence and mistakes, and return the figure.

    The figure of Liu et al. 2022: deeper colours are higher confidence, in the last column of wrong
    pixels only. With ``state``, the calibration state of the whole data set, a reliability diagram
    is added at the right. ``figure`` may be a subfigure of a larger one.

    >>> image, mask = np.zeros((2, 2), np.uint8), np.eye(2, dtype=int)
    >>> scene = Scene.from_logits(image, np.zeros((2, 2, 2)), mask)
    >>> [ax.get_title(loc="left") for ax in confidence_maps([scene], ["sky", "sea"]).axes]
    ['Image', 'Truth', 'Prediction', 'Confidence', 'Mistakes']
    """
    check_kind("confidence_maps", scenes, list, tuple)
    for scene in scenes:
        check_kind("confidence_maps", scene, Scene)
    if not scenes:
        raise InputError("confidence_maps expects at least one scene, got none.")
    shown = [data.scene_pictures(scene, len(label_names)) for scene in scenes]
    across = len(shown[0])
    wide, rows = (across, 1) if state is None else (across + 2, 2)
    figure = figure or new_figure(1.25 * wide, 1.2 * max(len(scenes), rows) + 0.5)
    grid = figure.add_gridspec(len(scenes), wide)
    for row, pictures in enumerate(shown):
        for column, picture in enumerate(pictures):
            ax = figure.add_subplot(grid[row, column])
            _show(ax, picture.pixels, picture.title if row == 0 else None)
    _legend(figure, scenes, label_names)
    if state is not None:
        reliability_diagram(state, figure.add_subplot(grid[:, across:]), counts=False)
    return figure


def _show(ax: Axes, pixels: np.ndarray, title: str | None) -> None:
    ax.imshow(pixels, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title, fontsize="x-small", color=INK, loc="left")


def _legend(figure: Figure, scenes: Sequence[Scene], label_names: Sequence[str]) -> None:
    """Draw a legend of the visible classes under the pictures."""
    patch = require("matplotlib.patches", "plots", "Drawing a diagram").Patch
    colours = data.class_colours(len(label_names)) / 255
    handles = [
        patch(color=colours[k], label=str(label_names[k])) for k in data.visible_classes(scenes)
    ]
    style = {"ncols": 6, "fontsize": "xx-small", "frameon": False, "labelcolor": INK}
    plain(figure.legend(handles=handles, loc="outside lower left", handlelength=1.2, **style))
