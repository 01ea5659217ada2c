"""Average ranks of methods, with the band of methods not significantly worse than the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from calibrant.errors import InputError
from calibrant.plots.canvas import axes, frame, say_empty
from calibrant.plots.palette import ACCURACY, GRID, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["rank_diagram"]


def rank_diagram(
    ranks: Mapping[str, float],
    critical_difference: float,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw a row per method, best on top; the band holds those not distinguishable from the best.

    It is the part of Demšar's (2006) critical-difference diagram that concerns the best method.

    >>> rank_diagram({"focal": 1.2, "mixup": 2.4}, 1.0).get_xlabel()
    'Average rank, less is better'
    """
    for method, rank in ranks.items():
        if not math.isfinite(rank):
            raise InputError(f"rank_diagram cannot draw '{method}': rank {rank}.")
    ax = axes(ax, 4.3, 0.9 + 0.24 * len(ranks))
    frame(ax, "Average rank, less is better", "", title)
    if not ranks:
        say_empty(ax)
        return ax
    order = sorted(ranks, key=lambda method: (-ranks[method], method))
    best = min(ranks.values())
    ax.axvspan(best, best + critical_difference, color=GRID, zorder=1)
    ax.plot([ranks[method] for method in order], range(len(order)), "o", color=ACCURACY, zorder=3)
    ax.set_yticks(range(len(order)), order, fontsize="x-small", color=INK, parse_math=False)
    ax.set_xlim(0.8, len(order) + 0.2)
    return ax
