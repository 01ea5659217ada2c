"""Wide tables in parts: as many columns as fit side by side, the post-hoc maps kept whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.study.measures import Measure
from calibrant.study.table import Table

__all__ = ["in_parts", "told_part"]

_MOST = 8  # Columns of a mean with its interval that fit on a screen.


def in_parts(measures: Sequence[Measure]) -> dict[str, list[Measure]]:
    """What to add to a title → its measures; the first part has nothing to add.

    All measures of a map go together; another map begins a part where it would not fit.

    >>> wide = [Measure(m, map_) for map_ in ("identity", "spline") for m in ("ece", "nll") * 3]
    >>> {words: len(part) for words, part in in_parts(wide).items()}
    {'': 6, 'with spline': 6}
    """
    maps: dict[str, list[Measure]] = {}
    for measure in measures:
        maps.setdefault(measure.map, []).append(measure)
    parts: list[list[str]] = [[]]
    for name, group in maps.items():
        before = sum(len(maps[other]) for other in parts[-1])
        if before and before + len(group) > _MOST:
            parts.append([])
        parts[-1].append(name)
    return {
        f"with {', '.join(part).replace('_', ' ')}" if place else "": [
            measure for name in part for measure in maps[name]
        ]
        for place, part in enumerate(parts)
    }


def told_part(table: Table, words: str) -> Table:
    """A table that says of which maps it is."""
    if not words:
        return table
    return replace(table, name=f"{table.name} {words}", title=f"{table.title}, {words}")
