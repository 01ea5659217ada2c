"""Right, predicted and gold counts per entity type: the additive state of F1."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.arguments import check_kind
from calibrant.errors import InputError

__all__ = ["MatchCounts", "f1"]


@dataclass(frozen=True, eq=False)
class MatchCounts:
    """Counts per entity type: predicted, gold and both.

    Arrays of shape (T,), with leading axes where there are many states (blocks of a bootstrap,
    replicates). Counts of two shards add up to those of the whole where no sentence is split.

    >>> a = MatchCounts(("PER",), np.array([1]), np.array([2]), np.array([1]))
    >>> f1(a), f1(a + a)
    (0.6666666666666666, 0.6666666666666666)
    """

    types: tuple[str, ...]
    correct: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray

    SUMS: ClassVar[tuple[str, ...]] = ("correct", "predicted", "gold")

    @property
    def n(self) -> np.ndarray:
        """The number predicted plus the number gold: zero for an empty block."""
        return np.asarray(self.predicted + self.gold)

    def __add__(self, other: MatchCounts) -> MatchCounts:
        if not isinstance(other, MatchCounts):
            return NotImplemented
        if self.types != other.types:
            raise InputError(
                f"Counts of different entity types do not add: {self.types} and {other.types}."
            )
        return replace(self, **{s: getattr(self, s) + getattr(other, s) for s in self.SUMS})

    def __radd__(self, other: object) -> MatchCounts:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.

    def total(self) -> MatchCounts:
        """Sum over the leading axes."""
        lead = tuple(range(self.gold.ndim - 1))
        return replace(self, **{s: getattr(self, s).sum(axis=lead) for s in self.SUMS})

    def resampled(self, weights: np.ndarray) -> MatchCounts:
        """Return counts of bootstrap replicates: (R, G) weights times the counts of G blocks."""
        return replace(self, **{s: weights @ getattr(self, s) for s in self.SUMS})

    def to_json(self) -> str:
        """Return one line of JSON; :meth:`from_json` restores the same counts."""
        sums = {s: getattr(self, s).tolist() for s in self.SUMS}
        return json.dumps({"types": list(self.types), **sums})

    @classmethod
    def from_json(cls, text: str) -> MatchCounts:
        """Read the output of :meth:`to_json`."""
        content = json.loads(text)
        sums = (np.asarray(content[s], np.int64) for s in cls.SUMS)
        return cls(tuple(content["types"]), *sums)


def f1(counts: MatchCounts, *, by_type: bool = False) -> Any:
    """F1 = 2 · correct / (predicted + gold): micro over the types, or one number per type.

    The result is NaN if nothing is predicted and nothing is gold.

    >>> f1(MatchCounts(("LOC", "PER"), np.array([1, 0]), np.array([1, 1]), np.array([1, 0])))
    0.6666666666666666
    """
    check_kind("f1", counts, MatchCounts)
    sums = [getattr(counts, s) if by_type else getattr(counts, s).sum(axis=-1) for s in counts.SUMS]
    correct, predicted, gold = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.asarray(2 * correct / (predicted + gold))
    return float(value) if value.ndim == 0 else value
