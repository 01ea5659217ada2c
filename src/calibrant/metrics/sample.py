"""A bounded, seeded sample of a stream: only a row's number decides whether it is kept."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.blocks import hash_values

__all__ = ["Sample"]


class _Rows(Sized, Protocol):
    def __getitem__(self, rows: np.ndarray, /) -> Any: ...


T = TypeVar("T", bound=_Rows)

_ALL = np.uint64(2**64 - 1)  # The threshold below which every hash lies.


class Sample(Generic[T]):
    """At most ``most`` of the added rows, each equally likely to be kept.

    Rows whose hash lies below a threshold are kept; when they become too many, the threshold is
    halved and about half of them are dropped. So the sample is the same for any cut of the stream.
    Added data must support a mask of rows in brackets, like arrays, Predictions and Confidences.

    >>> sample = Sample(most=100)
    >>> for start in range(0, 1000, 10):
    ...     sample.add(np.arange(start, start + 10))
    >>> 40 < sum(map(len, sample.parts)) <= 100, sample.seen, sample.whole
    (True, 1000, False)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        if most < 1:
            raise InputError(f"A sample holds at least 1 example, got {most}.")
        self.most, self.seed, self.seen, self.held = most, seed, 0, 0
        self.parts: list[T] = []
        self._salt = hash_values(np.array([seed]))
        self._threshold = _ALL
        self._keys: list[np.ndarray | int] = []  # Row numbers until the first drop: 8 bytes a row.

    def like(self) -> Sample[T]:
        """Return an empty sample of the same size and seed."""
        return Sample(self.most, self.seed)

    def merge(self, later: Sample[T]) -> None:
        """Add the rows of another sample, in which none was dropped either."""
        if not (self.whole and later.whole):
            raise ValueError("Samples can be merged as long as none has dropped a row.")
        for part in later.parts:
            self.add(part)

    def add(self, part: T) -> None:
        """Add the next rows of the stream."""
        start, self.seen = self.seen, self.seen + len(part)
        self._hold(part, start if self._threshold == _ALL else self._hashed(start, len(part)))
        while self.held > self.most:
            self._threshold >>= np.uint64(1)
            before = list(zip(self.parts, self._keys, strict=True))
            self.parts, self._keys, self.held = [], [], 0
            for held, keys in before:
                self._hold(held, self._hashed(keys, len(held)) if isinstance(keys, int) else keys)

    @property
    def whole(self) -> bool:
        """Whether no row was left out."""
        return self.held == self.seen

    def take(self) -> list[T]:
        """Return the parts and release them: nothing more can be added."""
        parts, self.parts, self._keys = self.parts, [], []
        return parts

    def _hashed(self, start: int, rows: int) -> np.ndarray:
        return hash_values(hash_values(np.arange(start, start + rows)) ^ self._salt)

    def _hold(self, part: T, keys: np.ndarray | int) -> None:
        """Keep the rows of ``part`` that stay, with their keys, or the number of the first."""
        if not isinstance(keys, int) and not (kept := keys <= self._threshold).all():
            part, keys = part[kept], keys[kept]
        self.parts.append(part)
        self._keys.append(keys)
        self.held += len(part)
