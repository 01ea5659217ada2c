"""A bounded, seeded sample of a stream: whether a row is in it depends on its number alone."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics import Confidences
from calibrant.metrics.blocks import hash_values

__all__ = ["Sample"]


class Sample:
    """At most ``most`` of the examples that are added, each as likely as any other.

    Rows whose hash lies below a threshold are kept; when they become too many, the threshold is
    halved and about half of them go. So the sample is the same however the stream is cut.

    >>> sample = Sample(most=100)
    >>> for start in range(0, 1000, 10):
    ...     sample.add(Confidences(np.full(10, 0.5), np.zeros(10)), start)
    >>> 40 < len(sample.confidences) <= 100, sample.seen
    (True, 1000)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        if most < 1:
            raise InputError(f"A sample holds at least 1 example, got {most}.")
        self.most, self.seen = most, 0
        self._salt = hash_values(np.array([seed]))
        self._threshold = np.uint64(2**64 - 1)
        self._parts: list[Confidences] = []
        self._keys: list[np.ndarray] = []
        self._held = 0

    def add(self, part: Confidences, start: int) -> None:
        """Add examples that are the rows from ``start`` on."""
        keys = hash_values(hash_values(np.arange(start, start + len(part))) ^ self._salt)
        self.seen += len(part)
        self._hold(part, keys)
        while self._held > self.most:
            self._threshold >>= np.uint64(1)
            parts, keys_of = self._parts, self._keys
            self._parts, self._keys, self._held = [], [], 0
            for held, its in zip(parts, keys_of, strict=True):
                self._hold(held, its)

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self._held == self.seen

    @property
    def confidences(self) -> Confidences:
        """The examples of the sample."""
        return Confidences.concatenate(self._parts)

    def _hold(self, part: Confidences, keys: np.ndarray) -> None:
        kept = keys <= self._threshold
        if not kept.all():
            block = None if part.block is None else part.block[kept]
            part, keys = Confidences(part.confidence[kept], part.correct[kept], block), keys[kept]
        self._parts.append(part)
        self._keys.append(keys)
        self._held += len(part)
