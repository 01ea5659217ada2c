"""Small multiples: one reliability diagram per class, the worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.arguments import check_kind
from calibrant.errors import InputError
from calibrant.metrics import CalibrationState
from calibrant.plots.canvas import frame, new_figure, say_empty
from calibrant.plots.curve import class_curve, diagram_state, worst_classes
from calibrant.plots.palette import INK, MUTED
from calibrant.plots.reliability import draw_bars
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["classwise_grid"]


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
    worst = worst_classes(state, most)
    columns = max(1, min(columns, len(worst)))
    rows = max(1, math.ceil(len(worst) / columns))
    figure = figure or new_figure(2.0 * columns, 2.1 * rows)
    if not len(worst):
        say_empty(figure.add_subplot())
    for place, label in enumerate(worst, start=1):
        ax = figure.add_subplot(rows, columns, place)
        name = str(label) if label_names is None else label_names[label]
        _draw_class(ax, state, int(label), name, level)
        ax.label_outer(remove_inner_ticks=True)
    return figure


def _draw_class(ax: Axes, state: CalibrationState, label: int, name: str, level: float) -> None:
    curve = class_curve(state, label, level)
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)), zorder=1.5)
    draw_bars(ax, curve, level)
    frame(ax, "Probability of the class", "Share labelled so")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    shown = name if len(name) <= 24 else name[:23] + "…"
    # parse_math off: a '$' in a label name is a dollar, not TeX.
    ax.set_title(shown, fontsize="small", color=INK, loc="left", parse_math=False)
    error = np.abs(state.class_correct[label] - state.class_confidence[label]).sum() / state.n
    ax.text(
        0.04, 0.95, f"ECE {error:.4f}", va="top", fontsize="xx-small", color=MUTED,
        transform=ax.transAxes,
    )  # fmt: skip
