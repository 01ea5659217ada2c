"""Select runs by their heads: the depth and the width that most runs have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from calibrant.study.runs import Run

__all__ = ["at_main_depth", "at_main_width", "at_shared_widths", "with_several_depths"]


def at_main_depth(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of the most common depth; the table of depths has the others."""
    counts = Counter(run.depth for run in runs)
    main = min(counts, key=lambda depth: (-counts[depth], depth), default=None)
    return [run for run in runs if run.depth == main]


def at_main_width(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of the width that most methods, then most runs, have."""
    counts = Counter(run.width for run in runs)
    methods = Counter(width for _, width in {(run.method, run.width) for run in runs})
    main = min(methods, key=lambda w: (-methods[w], -counts[w], w), default=None)
    return [run for run in runs if run.width == main]


def at_shared_widths(runs: Sequence[Run]) -> list[Run]:
    """Return all runs if every method has every width; otherwise those of the main width.

    Averages over widths are then comparable.
    """
    widths = {run.width for run in runs}
    cells = {(run.method, run.width) for run in runs}
    complete = len(cells) == len(widths) * len({run.method for run in runs})
    return list(runs) if complete else at_main_width(runs)


def with_several_depths(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of methods and widths that were run at several depths and otherwise alike."""
    depths: dict[tuple[Any, ...], set[int]] = {}
    for run in runs:
        depths.setdefault((run.method, run.width, run.extra), set()).add(run.depth)
    return [run for run in runs if len(depths[run.method, run.width, run.extra]) > 1]
