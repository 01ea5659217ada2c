"""The chart of a stream: an expected share in each chunk, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calibrant.charts.axes import fit_axis
from calibrant.charts.chart import Axis, Chart, Dots, Hover, Line, Mark, segments, short_name
from calibrant.charts.numbers import counted, percent

__all__ = ["stream_chart"]

_MOST_TICKS = 6


def stream_chart(
    names: Sequence[str],
    expected: Sequence[tuple[float, float, float]],
    *,
    what: str = "Expected accuracy",
    reference: float = math.nan,
    seen: Sequence[float] = (),
    title: str = "",
) -> Chart:
    """Chart (value, low, high) of each chunk, the value of the reference, and what labels showed.

    ``expected`` and ``seen`` have NaN where a chunk has no number.
    """
    table = np.array(expected, float).reshape(-1, 3)
    value, low, high = table.T
    known = np.flatnonzero(~np.isnan(value))
    if not len(known):
        bare = Axis("Chunk", 0, 1), Axis(what, 0, 1)
        return Chart(*bare, (), title, "No values.", empty="no values")
    x = np.arange(len(names))
    ends = [v for v in [*table.ravel(), reference, *seen] if not math.isnan(v)]
    y = fit_axis(what, ends)
    wide = known[~np.isnan(low[known])]
    marks: list[Mark] = [
        segments("interval", x[wide], x[wide], low[wide], high[wide]),
        Line("risk", x.astype(float), value),
    ]
    keys = [("risk", what), *([("interval", "Interval")] if len(wide) else [])]
    if not math.isnan(reference):
        marks.append(segments("ideal", -0.5, len(names) - 0.5, reference, reference))
        keys.append(("ideal", f"Reference {percent(reference)}"))
    found = [i for i, share in enumerate(seen) if not math.isnan(share)]
    if found:
        marks.append(Dots("rank", x[found].astype(float), np.array([seen[i] for i in found])))
    marks += [
        Hover(
            _tip(names[i], what, table[i]),
            i - 0.5,
            i + 0.5,
            y.low,
            y.high,
            (float(i), float(value[i])),
        )
        for i in map(int, known)
    ]
    return Chart(
        Axis("Chunk", -0.5, len(names) - 0.5, _ticks(names)),
        y,
        tuple(marks),
        title,
        f"{what} of {counted(len(known), 'chunk')}, from {percent(float(np.nanmin(value)))} to "
        f"{percent(float(np.nanmax(value)))}.",
        "wide",
        tuple(keys),
    )


def _tip(name: str, what: str, row: np.ndarray) -> str:
    value, low, high = (float(number) for number in row)
    lines = [name, f"{what} {percent(value)}"]
    if not math.isnan(low):
        lines.append(f"{percent(low)} to {percent(high)}")
    return "\n".join(lines)


def _ticks(names: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """Return the names of a few chunks, evenly spread."""
    longest = max(1, *(len(short_name(name)) for name in names))  # A name may be empty.
    most = max(2, min(_MOST_TICKS, 40 // longest))
    step = -(-len(names) // most)
    return tuple((float(i), short_name(names[i])) for i in range(0, len(names), step))
