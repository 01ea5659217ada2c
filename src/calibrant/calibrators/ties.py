"""Scores that differ only by rounding are one point: every curve that sorts scores merges them.

One text gets logits that differ by 1e-7 from batch to batch. As separate points such scores would
let a curve rise between them, and the same text would get two confidences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Points", "by_score", "tied_runs", "tolerance"]

_NEAR = 2e-6  # Of log-odds beyond ±1: relative. Several times what float32 logits differ by.
_FLOAT32 = 1.2e-7  # Two float32 numbers just below 1.
_WIDEST = 2  # Width of a run, in tolerances: dense scores are no chain of ties.
_LARGEST = 5e-7  # No tolerance of a probability is above it.


class Points(NamedTuple):
    """Distinct scores in ascending order, what lies on each, and what each was merged from.

    ``low`` ≤ ``middle`` ≤ ``high`` are equal where no rounding was merged. With sample weights
    ``weight`` and ``hits`` are sums of weights.
    """

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    hits: np.ndarray


def by_score(scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None) -> Points:
    """Return the distinct scores with their counts and events; near ties are one.

    >>> points = by_score(np.array([0.7, 0.2, 0.7 + 1e-8]), np.array([True, False, False]))
    >>> points.middle.round(3), points.weight, points.hits
    (array([0.2, 0.7]), array([1, 2]), array([0, 1]))
    """
    order = np.argsort(scores)
    ordered = scores[order]
    first = tied_runs(ordered)
    low, high = ordered[first], ordered[np.append(first[1:], len(ordered)) - 1]
    if weights is None:
        count = np.diff(np.append(first, len(ordered)))
        hits, sums = np.add.reduceat(happened[order].astype(np.int64), first), ordered
    else:
        heavy = weights[order]
        count = np.add.reduceat(heavy, first)
        hits, sums = np.add.reduceat(np.where(happened[order], heavy, 0.0), first), ordered * heavy
    middle = np.clip(np.add.reduceat(sums, first) / count, low, high)  # A mean may round.
    return Points(low, middle, high, count, hits)


def tied_runs(ordered: np.ndarray) -> np.ndarray:
    """Return where each run of tied scores starts, of probabilities in ascending order.

    Neighbours within :func:`tolerance` are tied. A run that would be wider than two tolerances is
    cut at multiples of this width from its first score.

    >>> tied_runs(np.array([0.2, 0.5, 0.5, 0.5 + 1e-7, 0.51]))
    array([0, 1, 4])
    """
    gaps = np.diff(ordered)
    steps = np.where(gaps > 0, 2.0 * _WIDEST, 0.0)  # In tolerances; most are far.
    small = np.flatnonzero((gaps > 0) & (gaps <= _LARGEST))
    if len(small):
        stored = bool((ordered.astype(np.float32) == ordered).all())
        near = gaps[small] / tolerance(ordered[small], float32=stored)
        steps[small] = np.minimum(near, 2.0 * _WIDEST)
    starts = np.append(True, steps > 1)
    if len(small):
        position = np.append(0.0, np.cumsum(steps))
        anchor = position[starts][np.cumsum(starts) - 1]
        part = np.floor((position - anchor) / _WIDEST)
        starts[1:] |= part[1:] != part[:-1]
    return np.flatnonzero(starts)


def tolerance(scores: np.ndarray, *, float32: bool = True) -> np.ndarray:
    """Return how far probabilities may lie apart that rounding made of one.

    2e-6 · max(1, |z|) of their log-odds z, and with ``float32`` also a few of the last digits of
    this type, which are more than that near 1.

    >>> tolerance(np.array([0.5, 0.999]), float32=False)
    array([5.0000000e-07, 1.3799696e-08])
    """
    inside = scores.clip(1e-300, 1 - 2.0**-53)
    log_odds = np.log(inside) - np.log1p(-inside)
    relative = _NEAR * (1 - inside) * np.abs(log_odds).clip(1, None)
    return np.asarray(inside * (relative.clip(_FLOAT32, None) if float32 else relative))
