"""Sums by the columns that split examples into few groups, such as domain or sex, and by label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from calibrant.auditing.evidence import ClaimSums, Question, findings_of
from calibrant.auditing.record import Finding
from calibrant.claims import Claims
from calibrant.metrics import Bins, CalibrationState
from calibrant.metrics.claim_state import add_to, tally
from calibrant.metrics.kernel_dispatch import claim_kernels, plain, whole_numbers
from calibrant.metrics.state import times
from calibrant.predictions import Predictions

__all__ = ["GroupSums", "Judged", "LabelSums"]

# A column of more values numbers or describes examples; it does not part them into groups.
_MOST_VALUES = 20
_MOST_COLUMNS = 20
_MOST_SUMS = 4_000_000  # Of blocks and labels together: 32 MB per table.
_FIRST = 1000  # Rows whose values decide at once that a column has too many.


class Judged(NamedTuple):
    """The bootstrap block, confidence and correctness of each example of a chunk."""

    block: np.ndarray
    confidence: np.ndarray
    correct: np.ndarray


class GroupSums:
    """Confidence and correctness by value of each column, in bins and over bootstrap blocks."""

    def __init__(self, blocks: int, bins: Bins, by: str | None) -> None:
        self.blocks, self.bins, self.by = blocks, bins, by
        self._columns: dict[str, dict[str, tuple[np.ndarray, np.ndarray]] | None] = {}

    def add(self, chunk: Predictions | Claims, judged: Judged) -> None:
        """Add a chunk."""
        for name, column in chunk.groups.items():
            if name == self.by or self._columns.get(name, {}) is None:
                continue
            if name not in self._columns and len(self._columns) >= _MOST_COLUMNS:
                continue
            self._columns[name] = self._added(name, column, chunk.weights, *judged)

    def _added(
        self, name: str, column: np.ndarray, weights: np.ndarray | None, *each: np.ndarray
    ) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
        """Return the sums of a column with those of a chunk; None if it has too many values."""
        if len(np.unique(column[:_FIRST])) > _MOST_VALUES:
            return None
        values, where = np.unique(column, return_inverse=True)
        sums = self._columns.get(name) or {}
        if len(sums.keys() | set(map(str, values.tolist()))) > _MOST_VALUES:
            return None
        for place, value in enumerate(map(str, values.tolist())):
            own = None if weights is None else weights[where == place]
            added = self._of_rows(own, *(a[where == place] for a in each))
            old = sums.get(value)
            sums[value] = added if old is None else (old[0] + added[0], old[1] + added[1])
        return sums

    def _of_rows(
        self,
        own: np.ndarray | None,
        block: np.ndarray,
        confidence: np.ndarray,
        correct: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return tables (3, bins) and (3, blocks): number, sum of confidence, number right."""
        bin_ = self.bins.index(confidence)
        weights = (own, times(confidence, own), times(correct, own))
        binned = [np.bincount(bin_, w, minlength=self.bins.count) for w in weights]
        blocked = [np.bincount(block, w, minlength=self.blocks) for w in weights]
        return np.stack(binned).astype(np.float64), np.stack(blocked).astype(np.float64)

    def merge(self, other: GroupSums) -> None:
        """Add the sums of other rows."""
        for name, theirs in other._columns.items():
            mine = self._columns.get(name, {})
            if mine is None or theirs is None or len(mine.keys() | theirs.keys()) > _MOST_VALUES:
                self._columns[name] = None
                continue
            for value, tables in theirs.items():
                old = mine.get(value)
                added = tables if old is None else (old[0] + tables[0], old[1] + tables[1])
                mine[value] = added
            self._columns[name] = mine

    def scale(self, factor: float) -> None:
        """Multiply all sample weights by a factor."""
        for sums in self._columns.values():
            for tables in (sums or {}).values():
                for table in tables:
                    table *= factor

    @property
    def any(self) -> bool:
        """Whether there is a column of two or more groups."""
        return any(sums and len(sums) > 1 for sums in self._columns.values())

    def findings(self, *, grouped: bool, level: float) -> tuple[Finding, ...]:
        """Test every group: all of its examples together, and in each bin of confidence."""
        return findings_of("group", self._questions(grouped), level)

    def _questions(self, grouped: bool) -> Iterator[Question]:
        edges = 100 * self.bins.edges()

        def where(place: int) -> str:
            if not place:
                return ""
            return f"{edges[place - 1]:.3g} to {edges[place]:.3g} %"

        for name, sums in self._columns.items():
            if not sums or len(sums) < 2:
                continue
            for value, (binned, blocked) in sums.items():
                cells = np.concatenate([binned.sum(axis=1, keepdims=True), binned], axis=1)
                claims = ClaimSums(*cells)
                if grouped:  # The bins of a group have no blocks: they take those of the whole.
                    whole = ClaimSums.blocked(*blocked[:, :, None])
                    like = whole.map(partial(np.broadcast_to, shape=cells[0].shape))
                    claims = like._replace(n=cells[0], claimed=cells[1], right=cells[2])
                yield Question(f"{name} = {value}", claims, where)


class LabelSums:
    """Counts, confidences and right claims per label and block.

    The labels are those of claims, which are not known in advance: new ones add columns. They may
    be as many as examples (answers of a language model): that many sums are kept without blocks.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks, self.names = blocks, dict[str, int]()
        self._tables = np.zeros((blocks, 0, 4))  # The sums of a label lie together in memory.
        self.weighted = False
        self.blocked = True  # Whether there were few enough labels for sums of each block.

    def add(self, claims: Claims, block: np.ndarray | None) -> None:
        """Add the claims of a chunk; the fourth table counts true labels."""
        if claims.about is None:
            return
        place = self._places(claims.names)
        block = block if self.blocked else None
        w, self.weighted = claims.weights, claims.weighted
        if w is None and (module := claim_kernels(len(claims), again=True)) is not None:
            given = (plain(claims.confidence), plain(claims.correct, np.bool_))
            codes = (whole_numbers(claims.about), whole_numbers(claims.truth))
            where = (plain(place, np.int64), whole_numbers(block))
            module.add_labels(*given, *codes, *where, self._tables)
            return
        count, confidence, right, labelled = np.moveaxis(self._tables, -1, 0)
        start = 0 if block is None else block * len(self.names)
        cell = start + place[claims.about]
        tally(count, right, cell, claims.correct, w)
        add_to(confidence, cell, times(claims.confidence, w))
        if claims.truth is not None:
            add_to(labelled, start + place[claims.truth], w)

    def _places(self, names: Sequence[str]) -> np.ndarray:
        """Return the column of each name, with room for new ones."""
        place = np.array([self.names.setdefault(n, len(self.names)) for n in names], int)
        if self.blocked and len(self.names) * self.blocks > _MOST_SUMS:
            self._without_blocks()
        if new := len(self.names) - self._tables.shape[1]:
            wider = np.zeros((self.blocks, new, 4))
            self._tables = np.concatenate([self._tables, wider], axis=1)
        return place

    def sort(self) -> None:
        """Order the labels by name: parts may arrive in any order."""
        order = [self.names[name] for name in sorted(self.names)]
        self.names = {name: place for place, name in enumerate(sorted(self.names))}
        self._tables = self._tables[:, order]

    def _without_blocks(self) -> None:
        self.blocked, self.blocks = False, 1
        self._tables = self._tables.sum(axis=0, keepdims=True)

    def merge(self, other: LabelSums) -> None:
        """Add the sums of other rows, whose labels may be others."""
        if self.blocked and not other.blocked:
            self._without_blocks()
        place = self._places(list(other.names))
        theirs = other._tables if self.blocked else other._tables.sum(axis=0, keepdims=True)
        self._tables[:, place] += theirs
        self.weighted = self.weighted or other.weighted

    def scale(self, factor: float) -> None:
        """Multiply all sample weights by a factor."""
        self._tables *= factor

    def into(self, state: CalibrationState) -> CalibrationState:
        """Return the state with the sums of each label; one without blocks takes their totals."""
        if not self.names:
            return state
        tables = self._tables.sum(axis=0) if state.n.ndim == 0 else self._tables
        count, confidence, right, labelled = np.moveaxis(tables, -1, 0)
        dtype = np.float64 if self.weighted else np.int64
        return replace(
            state,
            classes=len(self.names),
            predicted_count=count.astype(dtype),
            predicted_confidence=np.ascontiguousarray(confidence),
            predicted_correct=right.astype(dtype),
            label_count=labelled.astype(dtype),
        )
