"""Confidences of rows of up to 16 scores: sixteen rows side by side, column after column.

Vectors along such a row would be partly empty, and reducing them to one number is most of the work:
half with half, four times. Vectors across rows need no such step. The cost is to transpose the
scores on the way in (:func:`calibrant.metrics.kernels.simd_memory.load_columns`).

After a change here, save ``tops.py`` too.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from functools import partial

import numpy as np

from calibrant.metrics.kernels.rows import compiled
from calibrant.metrics.kernels.simd_exponential import DEEP, exponential_in_lanes
from calibrant.metrics.kernels.simd_memory import load, load_columns, memory_of, store
from calibrant.metrics.kernels.simd_vector import (
    LANES,
    larger,
    largest,
    same,
    smaller,
    smallest,
    where_larger,
)

__all__ = ["tops_of_logits", "tops_of_probabilities"]

# Scores may be NaN: detecting that is part of the work.
_compiled = partial(compiled, mathematics={"contract", "nsz"})

_LOWEST, _HIGHEST = np.finfo(np.float32).min, np.finfo(np.float32).max
_ZERO, _ONE = np.float32(0), np.float32(1)


@_compiled
def _look(scores, k, top, place, low):
    """Update the largest score of each row, its first place, and the smallest, with column k."""
    place = where_larger(scores, top, same(np.float32(k)), place)
    return larger(scores, top), place, smaller(scores, low)


@_compiled
def _tops(scores, start, columns, low):
    """Find largest score, its first place and Σ_k score of 16 rows; per lane, the smallest."""
    top, place, total = same(_LOWEST), same(_ZERO), same(_ZERO)
    rest = columns % 4
    whole = columns - rest
    for k in range(0, whole, 4):
        a, b, c, d = load_columns(scores, start + k, columns)
        top, place, low = _look(a, k, top, place, low)
        top, place, low = _look(b, k + 1, top, place, low)
        top, place, low = _look(c, k + 2, top, place, low)
        top, place, low = _look(d, k + 3, top, place, low)
        total = total + ((a + b) + (c + d))
    if rest:
        a, b, c, _ = load_columns(scores, start + whole, columns)
        top, place, low = _look(a, whole, top, place, low)
        total = total + a
        if rest > 1:
            top, place, low = _look(b, whole + 1, top, place, low)
            total = total + b
        if rest > 2:
            top, place, low = _look(c, whole + 2, top, place, low)
            total = total + c
    return top, place, total, low


@_compiled
def _sums(scores, start, columns, top, deep):
    """Return Σ_k exp(score − top) of 16 rows."""
    total, rest = same(_ZERO), columns % 4
    whole = columns - rest
    for k in range(0, whole, 4):
        a, b, c, d = load_columns(scores, start + k, columns)
        first = exponential_in_lanes(a - top, deep) + exponential_in_lanes(b - top, deep)
        second = exponential_in_lanes(c - top, deep) + exponential_in_lanes(d - top, deep)
        total = total + (first + second)
    if rest:
        a, b, c, _ = load_columns(scores, start + whole, columns)
        total = total + exponential_in_lanes(a - top, deep)
        if rest > 1:
            total = total + exponential_in_lanes(b - top, deep)
        if rest > 2:
            total = total + exponential_in_lanes(c - top, deep)
    return total


@partial(_compiled, inline=False)
def tops_of_logits(flat, start, rows, columns, top, place, total, confidence):
    """Find top score, place and confidence of some rows; whether all scores are surely finite.

    Rows are read in sixteens, so the array and the tables must extend as far, and further rows in
    them must be valid too.
    """
    scores, low, high = memory_of(flat), same(_HIGHEST), same(_LOWEST)
    for r in range(0, rows, LANES):
        tops, places, _, low = _tops(scores, (start + r) * columns, columns, low)
        high = larger(tops, high)
        store(tops, top, r)
        store(places, place, r)
    spread = largest(high) - smallest(low)
    deep = spread > DEEP
    for r in range(0, rows, LANES):
        tops = load(top, r)
        store(_sums(scores, (start + r) * columns, columns, tops, deep), total, r)
    finite = spread < _HIGHEST
    for r in range(rows):
        finite &= total[r] >= 0.5  # The top score alone contributes 1; NaN is not ≥ anything.
        confidence[r] = 1 / np.float64(total[r])
    return finite


@partial(_compiled, inline=False)
def tops_of_probabilities(flat, start, rows, columns, tolerance, top, place, confidence):
    """Find the same; whether all probabilities are surely in 0..1, and sum to 1."""
    scores, fine, limit = memory_of(flat), same(_ONE), same(np.float32(tolerance))
    low, high = same(_ZERO), same(_ZERO)
    for r in range(0, rows, LANES):
        tops, places, total, low = _tops(scores, (start + r) * columns, columns, low)
        high = larger(tops, high)
        fine = where_larger(limit, larger(total - _ONE, _ONE - total), fine, same(_ZERO))
        store(tops, top, r)
        store(places, place, r)
    for r in range(rows):
        confidence[r] = top[r]
    return (smallest(fine) == 1) & (smallest(low) >= 0) & (largest(high) <= 1)
