"""One row per subgroup of a column: whether its confidences can be trusted, and if it differs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.auditing.estimate import Estimator
from calibrant.auditing.gap_difference import difference_p_value
from calibrant.auditing.groups import Judged
from calibrant.auditing.record import GroupRow, GroupTable, Of
from calibrant.claims import Claims
from calibrant.distributions import holm
from calibrant.encoding import encode
from calibrant.errors import InputError, unknown_name
from calibrant.metrics import Bins, CalibrationState, accuracy, ece, mean_confidence
from calibrant.metrics.state import times
from calibrant.predictions import Predictions

__all__ = ["PerGroup"]

MOST_GROUPS = 200
_LEVEL = 0.05  # The risk that any group of a column seems to differ by chance.


class PerGroup:
    """Counts, confidences and right predictions per subgroup, block and bin of confidence."""

    def __init__(self, column: str, blocks: int, bins: Bins, of: Of = "top label") -> None:
        self.column, self.blocks, self.bins, self.of = column, blocks, bins, of
        self.names: dict[str, int] = {}
        self._tables = np.zeros((3, 0, blocks, bins.count))
        self.weighted = False

    def add(self, chunk: Predictions | Claims, judged: Judged) -> None:
        """Add a chunk."""
        if self.column not in chunk.groups:
            raise unknown_name("column for the subgroups", self.column, chunk.groups)
        found = encode(chunk.groups[self.column])
        names = [*found.names, "(missing)"] if (found.codes < 0).any() else list(found.names)
        place = self._places(names)
        if not len(chunk):
            return
        block, confidence, correct = judged
        cell = (place[found.codes] * self.blocks + block) * self.bins.count
        cell += self.bins.index(confidence)
        w, self.weighted = chunk.weights, chunk.weighted
        sums = (w, times(confidence, w), times(correct, w))
        for table, weights in zip(self._tables, sums, strict=True):
            table += np.bincount(cell, weights, minlength=table.size).reshape(table.shape)

    def merge(self, other: PerGroup) -> None:
        """Add the sums of other rows, whose subgroups may be others."""
        place = self._places(list(other.names))
        self._tables[:, place] += other._tables
        self.weighted = self.weighted or other.weighted

    def _places(self, names: list[str]) -> np.ndarray:
        """Return the place of each subgroup, with room for new ones."""
        place = np.array([self.names.setdefault(name, len(self.names)) for name in names], int)
        self._check_number()
        wider = np.zeros((3, len(self.names) - self._tables.shape[1], *self._tables.shape[2:]))
        self._tables = np.concatenate([self._tables, wider], axis=1)
        return place

    def scale(self, factor: float) -> None:
        """Multiply all sample weights by a factor."""
        self._tables *= factor

    def _check_number(self) -> None:
        if len(self.names) > MOST_GROUPS:
            raise InputError(
                f"'{self.column}' has more than {MOST_GROUPS} values; --per takes a column of few "
                "subgroups, such as a site or a language; "
                f"'calibrant watch --per {self.column}' groups times by day."
            )

    def table(self, estimate: Estimator, *, grouped: bool) -> GroupTable:
        """Return one row per subgroup, the largest gap first; all are tested together."""
        order = list(self.names)
        values = holm([self._difference(place, grouped) for place in range(len(order))])
        rows = [self._row(k, name, values[k], estimate) for k, name in enumerate(order)]
        rows = [row for row in rows if row.n]
        ordered = sorted(rows, key=lambda row: -abs(row.gap))
        return GroupTable(self.column, self.of, tuple(ordered))

    def _difference(self, place: int, grouped: bool) -> float:
        """Return the p-value of "its gap is that of all other examples"."""
        mine, all_ = self._tables[:, place].sum(axis=-1), self._tables.sum(axis=(1, 3))
        parts = mine, all_ - mine  # (3, blocks) each
        return difference_p_value(parts if grouped else [p.sum(axis=1)[:, None] for p in parts])

    def _row(self, place: int, name: str, p_value: float, estimate: Estimator) -> GroupRow:
        state = self._state(place)
        functions: dict[str, Callable[..., Any]] = {
            "accuracy": accuracy,
            "confidence": mean_confidence,
            "ece": ece,
        }
        measured = estimate.measured(list(functions.values()), (state,))
        numbers: dict[str, Any] = {}
        for key, (value, bounds) in zip(functions, measured, strict=True):
            low, high = bounds or (None, None)
            numbers |= {key: value, f"{key}_low": low, f"{key}_high": high}
        numbers["gap"] = numbers["confidence"] - numbers["accuracy"]
        numbers["gap_low"], numbers["gap_high"] = _gap_interval(numbers, _correlation(state))
        total, differs = float(state.n.sum()), p_value <= _LEVEL
        n = max(round(total), int(total > 0))  # A sum of weights may round to 0.
        return GroupRow(name, n, p_value=p_value, differs=differs, **numbers)

    def _state(self, place: int) -> CalibrationState:
        count, confidence, right = self._tables[:, place]
        options: dict[str, Any] = {"blocks": (self.blocks,), "weighted": self.weighted}
        empty = CalibrationState.empty(0, self.bins, classwise=False, **options)
        if not self.weighted:
            count, right = count.astype(np.int64), right.astype(np.int64)
        tables = {"top_count": count, "top_confidence": confidence, "top_correct": right}
        return replace(empty, n=count.sum(axis=-1), correct=right.sum(axis=-1), **tables)


def _gap_interval(row: Mapping[str, Any], together: float) -> tuple[float | None, float | None]:
    """Return the interval of confidence − accuracy, from those of both and their correlation.

    The method of variance estimates recovery (Zou & Donner 2008): each end of a difference lies
    where the ends of its parts, which are good also where all or nearly all are right, take it.
    Replicates of such a group show hardly any spread of the gap.
    """
    if row["accuracy_low"] is None or row["confidence_low"] is None:
        return None, None
    (down, up), (less, more) = (
        (row[name] - row[f"{name}_low"], row[f"{name}_high"] - row[name])
        for name in ("confidence", "accuracy")
    )
    low = row["gap"] - _distance(down, more, together)
    high = row["gap"] + _distance(up, less, together)
    return max(-1.0, low), min(1.0, high)


def _distance(one: float, other: float, together: float) -> float:
    return math.sqrt(max(0.0, one**2 + other**2 - 2 * together * one * other))


def _correlation(state: CalibrationState) -> float:
    """Return the correlation of mean confidence and accuracy, from the blocks; 0 if unknown."""
    n, right = state.n, state.correct
    claimed = state.top_confidence.sum(axis=-1)
    apart = [part - n * part.sum() / n.sum() for part in (claimed, right)] if n.sum() else [n, n]
    scale = math.sqrt(float((apart[0] ** 2).sum() * (apart[1] ** 2).sum()))
    return float((apart[0] * apart[1]).sum()) / scale if scale > 0 else 0.0
