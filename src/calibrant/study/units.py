"""Corpora of one setting: what the tables over all corpora are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrant.study.runs import Run, method_order

__all__ = ["Units", "keys_of", "methods_of"]

Units = Mapping[str, Sequence[Run]]  # corpus → its runs; all of one setting and depth


def methods_of(units: Units) -> list[str]:
    """The methods that were run on any corpus, in the order of tables."""
    return method_order({run.method for runs in units.values() for run in runs})


def keys_of(units: Units, method: str) -> tuple[str, ...]:
    """The records of one method."""
    return tuple(sorted(r.key for runs in units.values() for r in runs if r.method == method))
