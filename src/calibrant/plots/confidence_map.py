"""Confidence maps of segmented images, beside truth and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.arguments import check_kind, check_whole
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.metrics import CalibrationState
from calibrant.metrics.segmentation_example import Scene
from calibrant.plots import maps
from calibrant.plots.canvas import axes, new_figure
from calibrant.plots.palette import INK, MUTED
from calibrant.plots.reliability import reliability_diagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confidence_map", "confidence_maps"]

_TITLES = ("Image", "Truth", "Prediction", "Confidence", "Mistakes")


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
    ax = axes(ax)
    _show(ax, maps.confidence_map_of(scene.confidence, classes), title or "Confidence")
    colours = require("matplotlib.colors", "plots", "Drawing a diagram")
    steps = np.linspace(1 / classes, 1, 64)
    palette = colours.ListedColormap(maps.confidence_map_of(steps[None], classes)[0] / 255)
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
    wide = len(_TITLES) + (2 if state is not None else 0)
    figure = figure or new_figure(1.25 * wide, 1.2 * max(len(scenes), 2 if wide > 5 else 1) + 0.5)
    grid = figure.add_gridspec(len(scenes), wide)
    for row, scene in enumerate(scenes):
        for column, shown in enumerate(_columns(scene, len(label_names))):
            ax = figure.add_subplot(grid[row, column])
            _show(ax, shown, _TITLES[column] if row == 0 else None)
    _legend(figure, scenes, label_names)
    if state is not None:
        reliability_diagram(state, figure.add_subplot(grid[:, len(_TITLES) :]), counts=False)
    return figure


def _columns(scene: Scene, classes: int) -> list[np.ndarray]:
    return [
        maps.picture(scene),
        maps.class_map(scene.truth, classes),
        maps.class_map(scene.predicted, classes),
        maps.confidence_map_of(scene.confidence, classes),
        maps.mistake_map(scene, classes),
    ]


def _show(ax: Axes, pixels: np.ndarray, title: str | None) -> None:
    ax.imshow(pixels, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title, fontsize="x-small", color=INK, loc="left")


def _legend(figure: Figure, scenes: Sequence[Scene], label_names: Sequence[str]) -> None:
    """Draw a legend of the visible classes, at most twelve, under the pictures."""
    patch = require("matplotlib.patches", "plots", "Drawing a diagram").Patch
    seen = np.unique(np.concatenate([np.append(s.truth, s.predicted) for s in scenes]))
    colours = maps.class_colours(len(label_names)) / 255
    # parse_math off would be right for '$' in a name, but legends have no such switch.
    handles = [
        patch(color=colours[k], label=str(label_names[k]).replace("$", r"\$"))
        for k in seen[seen >= 0][:12]
    ]
    figure.legend(
        handles=handles, loc="outside lower left", ncols=6, fontsize="xx-small", frameon=False,
        labelcolor=INK, handlelength=1.2,
    )  # fmt: skip
