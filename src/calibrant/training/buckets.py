"""Batches of windows of similar length: one static shape per bucket, planned before training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["LENGTHS", "BatchPlan", "bucket_of", "plan_batches"]

# Padded lengths, in word pieces. Half of all sentences have fewer than 16.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Which windows make which batch: ``order`` holds the bucket of every step, ``rows`` for each
    bucket the (steps, batch) window numbers in the order of their steps; −1 fills a short batch.
    """

    order: np.ndarray
    rows: dict[int, np.ndarray]

    def __len__(self) -> int:
        return len(self.order)


def bucket_of(lengths: np.ndarray) -> np.ndarray:
    """Return the padded length of each window.

    >>> bucket_of(np.array([3, 16, 17, 500]))
    array([ 16,  16,  24, 512])
    """
    return np.asarray(LENGTHS)[np.searchsorted(LENGTHS, lengths)]


def plan_batches(lengths: np.ndarray, batch: int, epochs: int, seed: int) -> BatchPlan:
    """Plan every window once per epoch, in batches of one padded length, batches in random order.

    >>> plan = plan_batches(np.array([5, 6, 7, 40]), batch=2, epochs=1, seed=0)
    >>> sorted(plan.order.tolist()), {k: v.shape for k, v in plan.rows.items()}
    ([16, 48], {16: (1, 2), 48: (1, 2)})
    """
    random = np.random.default_rng(seed)
    buckets = bucket_of(lengths)
    order: list[int] = []
    rows: dict[int, list[np.ndarray]] = {int(b): [] for b in np.unique(buckets)}
    for _ in range(epochs):
        epoch = list(_epoch(buckets, batch, random))
        for i in random.permutation(len(epoch)):
            bucket, members = epoch[i]
            order.append(bucket)
            rows[bucket].append(members)
    return BatchPlan(np.asarray(order), {b: np.stack(parts) for b, parts in rows.items() if parts})


def _epoch(
    buckets: np.ndarray, batch: int, random: np.random.Generator
) -> Iterator[tuple[int, np.ndarray]]:
    over = np.empty(0, np.int64)  # Windows that do not fill a batch move up a bucket.
    used = np.unique(buckets)
    for bucket in used:
        members = random.permutation(np.append(over, np.flatnonzero(buckets == bucket)))
        full = len(members) // batch * batch
        for part in members[:full].reshape(-1, batch):
            yield int(bucket), part
        over = members[full:]
    if len(over):
        yield int(used[-1]), np.append(over, np.full(batch - len(over), -1))
