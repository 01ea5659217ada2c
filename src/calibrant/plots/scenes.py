"""Confidence maps of segmented images, beside truth and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.arguments import check_kind, check_whole
from calibrant.charts import scenes as data
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.metrics import CalibrationState
from calibrant.metrics.segmentation_example import Scene
from calibrant.plots.diagrams import reliability_diagram
from calibrant.plots.drawing import new_figure, plain
from calibrant.plots.styles import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confidence_map", "confidence_maps"]


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
    stands at the right. ``figure`` may be a subfigure of a larger one.

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
