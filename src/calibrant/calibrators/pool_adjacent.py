"""Pool adjacent violators: the non-decreasing sequence nearest to a given one."""

from __future__ import annotations

import numpy as np

__all__ = ["pool_adjacent_violators"]


def pool_adjacent_violators(
    values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the blocks of the isotonic regression: their means, and where each starts.

    Any run that does not increase belongs to one block of the solution, so all such runs can be
    pooled at once; repeated until none is left. On noisy data each round shrinks the sequence by
    a factor, so the work is linear in NumPy. Where a round shrinks it by less than a tenth (one
    low value at the end of a long ascent), the usual stack finishes in one pass.

    >>> pool_adjacent_violators(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    (array([1. , 2.5, 4. ]), array([0, 1, 3]))
    """
    sums = values * weights
    weights, means = weights.astype(np.float64), values.astype(np.float64)
    starts = np.arange(len(values))
    while True:
        first = np.append(True, means[1:] > means[:-1])
        if first.all():
            return means, starts
        index = np.flatnonzero(first)
        small_gain = len(index) > 0.9 * len(means)
        sums, weights = np.add.reduceat(sums, index), np.add.reduceat(weights, index)
        means, starts = sums / weights, starts[index]
        if small_gain:
            return _by_stack(sums, weights, starts)


def _by_stack(
    sums: np.ndarray, weights: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add one block after the other, pooled with earlier blocks while they are not below it."""
    blocks: list[tuple[float, float, int]] = []
    for total, weight, start in zip(sums.tolist(), weights.tolist(), starts.tolist(), strict=True):
        while blocks and blocks[-1][0] * weight >= total * blocks[-1][1]:
            total, weight = total + blocks[-1][0], weight + blocks[-1][1]
            start = blocks.pop()[2]
        blocks.append((total, weight, start))
    table = np.array(blocks)
    return table[:, 0] / table[:, 1], table[:, 2].astype(np.int64)
