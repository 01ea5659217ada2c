"""Equal-width bins of confidence and the convention at their edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.arguments import check_whole
from calibrant.errors import InputError

__all__ = ["Bins", "Closed"]

_MOST = 1_000_000  # More would only take memory: most hold single examples.

Closed: TypeAlias = Literal["right", "left"]


@dataclass(frozen=True)
class Bins:
    """``count`` bins of equal width over [0, 1].

    ``closed="right"`` (the default, as Guo et al. 2017 and scikit-learn): bins (lo, hi], the first
    closed at 0, so confidence 1.0, which float32 softmax reaches at a gap of 17 between two logits,
    lies in the last bin. ``closed="left"``: bins [lo, hi), the last closed at 1, like NumPy's
    histogram and netcal.

    >>> Bins(5).index(np.array([0.0, 0.2, 0.5, 1.0]))
    array([0, 0, 2, 4])
    >>> Bins(5, closed="left").index(np.array([0.0, 0.2, 0.5, 1.0]))
    array([0, 1, 2, 4])
    """

    count: int = 15
    closed: Closed = "right"

    def __post_init__(self) -> None:
        check_whole("Bins", "a whole number of bins ≥ 1", self.count)
        if self.count > _MOST:
            raise InputError(f"Bins expects at most {_MOST:,} bins, got {self.count:,}.")
        if self.closed not in ("right", "left"):
            raise InputError(f"Bins: closed must be 'right' or 'left', got {self.closed!r}.")

    def edges(self, dtype: Any = np.float64) -> np.ndarray:
        """Return the count + 1 edges k / count, rounded to the type of the binned values.

        A float32 0.2 then equals the edge 0.2, as intended.
        """
        return (np.arange(self.count + 1) / self.count).astype(dtype)

    def index(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value; the end bins take values rounded outside [0, 1]."""
        edges = self.edges(values.dtype)
        guess = (values.astype(np.float64) * self.count).astype(np.int64)
        np.clip(guess, 0, self.count - 1, out=guess)
        # The product rounds, so compare with the edges on both sides: exact, and faster than
        # a binary search.
        if self.closed == "right":
            guess -= values <= edges[guess]
            guess += values > edges[np.maximum(guess, 0) + 1]
        else:
            guess -= values < edges[guess]
            guess += values >= edges[np.maximum(guess, 0) + 1]
        return np.clip(guess, 0, self.count - 1, out=guess)
