"""The compiled pass for the bins of the top-label confidence of float32 scores (extra ``fast``).

One pass finds the largest score of each row, its confidence and its bin, and tells whether any
score or label might be wrong, so that data which has not been checked is read once. Rows are taken
in vectors of 16 floats (:mod:`calibrant.metrics.lanes`); the last vector of a row reaches into the
next one, and what it finds there is left out.

Exponentials are taken in float32, correct to about one unit in its last place, which
``docs/decisions/0006`` gives reasons for. Confidences so close to an edge that this could matter
are computed again in float64, so counts are those of float64, to the last one.

This module imports numba; only :mod:`calibrant.metrics.top_bins` imports this module.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant.metrics.kernels import bin_at_edge, compiled, sum_of_exponentials
from calibrant.metrics.lanes import (
    LANES,
    announce,
    count_equal,
    keep_first,
    larger,
    largest,
    load,
    place_of,
    power_of_two,
    same,
    smaller,
    smallest,
    sum_of_lanes,
)

__all__ = ["add_tops", "exponential_in_lanes", "margin"]

# Scores may be NaN: to find that out is a part of the work.
_compiled = partial(compiled, mathematics={"contract", "nsz"})
# A call per tile costs nothing, and what is compiled once instead of at each call, seconds less.
_compiled_apart = partial(_compiled, inline=False)

_LOG2_E = np.float32(1.4426950408889634)
_ROUND = np.float32(1.5 * 2**23 + 127)  # Adding it leaves k + 127 in the lowest bits.
_LOWEST, _HIGHEST = np.finfo(np.float32).min, np.finfo(np.float32).max
_ZERO, _ONE = np.float32(0), np.float32(1)
_LEAST_EXPONENT = np.float32(-126)
_DEEP = np.float32(87)  # e^−87 is the smallest power that float32 holds with all digits.
# 2^f ≈ 1 + f · Σ_i c_i f^i with the least maximum of the relative error: 9e−8 for abs(f) ≤ 1/2.
_C0, _C1, _C2, _C3, _C4 = (
    np.float32(c) for c in (0.693147, 0.24022242, 0.055507336, 0.009671513, 0.0013264727)
)
_SPAN = 1024  # Columns that are added up in float32, before float64 takes their sum.
_TILE = 64  # Rows at a time, at most,
_CACHED = 4096  # and scores: half of the first-level cache.


def margin(bins: int, columns: int) -> float:
    """How far confidence · bins of :func:`add_tops` may be from that of float64, for logits.

    In units of 2^−24: rounding of Σ exp in each lane and of lanes with lanes; of an exponential,
    3; of the score differences d, Σ d e^−d / Σ e^−d ≤ log K; doubled for safety.
    """
    units = min(columns, _SPAN) / LANES + 4 + 3 + math.log(columns)
    return 2 * bins * units * 2.0**-24


@_compiled
def exponential_in_lanes(x, deep):
    """e^x for x ≤ 0, within 2e−7 of it; e^0 is exactly 1. Without ``deep``, for x > −87.

    2^y = 2^k · 2^f with k whole and abs(f) ≤ 1/2; NaN stays NaN.
    """
    y = x * _LOG2_E
    if deep:
        y = larger(y, same(_LEAST_EXPONENT))
    shifted = y + _ROUND
    f = y - (shifted - _ROUND)
    p = _C3 + f * _C4
    p = _C2 + f * p
    p = _C1 + f * p
    p = _C0 + f * p
    return (_ONE + f * p) * power_of_two(shifted)


@_compiled
def _top_of_logits(flat, start, columns, low):
    """The largest score of a row; the smallest numbers that each lane has met."""
    whole = columns - columns % LANES
    last = load(flat, start + whole)
    top = keep_first(last, columns - whole, _LOWEST)
    low = smaller(keep_first(last, columns - whole, _HIGHEST), low)
    for k in range(0, whole, LANES):
        scores = load(flat, start + k)
        top, low = larger(scores, top), smaller(scores, low)
    return largest(top), low


@_compiled
def _sum_of_row(flat, start, columns, top, deep, ahead):
    """Σ_k exp(score − top) of a row. Meanwhile the scores ``ahead`` places further are fetched."""
    highest, whole, total = same(top), columns - columns % LANES, 0.0
    announce(flat, start + whole + ahead)
    last = exponential_in_lanes(load(flat, start + whole) - highest, deep)
    part = keep_first(last, columns - whole, _ZERO)
    for span in range(0, whole, _SPAN):
        for k in range(start + span, start + min(span + _SPAN, whole), LANES):
            announce(flat, k + ahead)
            part = part + exponential_in_lanes(load(flat, k) - highest, deep)
        if span + _SPAN < whole:
            total, part = total + sum_of_lanes(part), same(_ZERO)
    return total + sum_of_lanes(part)


@_compiled
def _sum_of_probabilities(flat, start, columns, low):
    """The largest probability of a row, their sum, and the smallest that each lane has met."""
    whole = columns - columns % LANES
    total = keep_first(load(flat, start + whole), columns - whole, _ZERO)
    top, low = total, smaller(total, low)
    for k in range(0, whole, LANES):
        scores = load(flat, start + k)
        top, low, total = larger(scores, top), smaller(scores, low), total + scores
    return largest(top), sum_of_lanes(total), low


@_compiled_apart
def _tile_of_logits(flat, start, rows, columns, top, confidence):
    """Top score and confidence of some rows; whether all scores are surely finite."""
    low, highest = same(_HIGHEST), _LOWEST
    for r in range(rows):
        top[r], low = _top_of_logits(flat, (start + r) * columns, columns, low)
    for r in range(rows):
        highest = max(highest, top[r])
    spread = highest - smallest(low)
    deep = spread > _DEEP
    for r in range(rows):
        row = (start + r) * columns
        confidence[r] = _sum_of_row(flat, row, columns, top[r], deep, 2 * rows * columns)
    finite = spread < _HIGHEST
    for r in range(rows):
        finite &= confidence[r] >= 0.5  # The top score alone gives 1; NaN is not ≥ anything.
        confidence[r] = 1 / confidence[r]
    return finite


@_compiled_apart
def _tile_of_probabilities(flat, start, rows, columns, tolerance, top, confidence):
    """The same; whether all probabilities are surely in 0..1, and sum to 1."""
    low, fine = same(_ZERO), True
    for r in range(rows):
        row = (start + r) * columns
        top[r], total, low = _sum_of_probabilities(flat, row, columns, low)
        fine &= (abs(total - 1) <= tolerance) & (top[r] <= 1)
    for r in range(rows):
        confidence[r] = top[r]
    return fine & (smallest(low) >= 0)


@_compiled
def _is_first(flat, row, columns, label, top):
    """Whether no column before the label, which holds the largest score, holds it too."""
    whole, found = columns - columns % LANES, 0
    for k in range(0, whole, LANES):
        found += count_equal(load(flat, row + k), top)
    found += count_equal(keep_first(load(flat, row + whole), columns - whole, _LOWEST), top)
    if found == 1:
        return True
    before = False
    for k in range(label):
        before |= flat[row + k] == top
    return not before


@_compiled_apart
def _find_correct(flat, labels, start, columns, alone, top, confidence, correct, doubtful):
    """Whether the label has the largest score; −1 where there is no such class.

    An earlier column with the same score is looked for only where the confidence allows for two,
    and then in a loop of its own: whether it does is a coin toss to the processor.
    """
    doubts, known = 0, True
    for r in range(len(labels)):
        known &= (labels[r] >= 0) & (labels[r] < columns)
    if columns <= LANES:
        for r in range(len(labels)):
            correct[r] = place_of(load(flat, (start + r) * columns), top[r]) == labels[r]
    else:
        for r in range(len(labels)):
            label = labels[r] if 0 <= labels[r] < columns else 0
            correct[r] = flat[(start + r) * columns + label] == top[r]
        for r in range(len(labels)):
            doubtful[doubts] = r
            doubts += (correct[r] == 1) & (confidence[r] <= alone)
    for d in range(doubts):
        r = doubtful[d]
        correct[r] = _is_first(flat, (start + r) * columns, columns, labels[r], top[r])
    if not known:
        for r in range(len(labels)):
            correct[r] = correct[r] if 0 <= labels[r] < columns else -1
    return known


@_compiled
def _find_bins(confidence, rows, bins, margin, where):
    """The bin of each confidence; whether one is so near to an edge that this may be wrong.

    Rows take turns in two tables, so that two additions to one bin need not wait for each other.
    """
    near = False
    for r in range(rows):
        product = confidence[r] * bins
        where[r] = min(max(int(product), 0), bins - 1) + bins * (r % 2)
        edge = np.floor(product + 0.5)
        near |= (abs(product - edge) <= margin) & (edge > 0) & (edge < bins)
    return near


@_compiled_apart
def _find_bins_at_edges(flat, start, rows, columns, cut, logits, top, confidence, where):
    """The same where it may be wrong, from confidences in float64."""
    edges, right, margin = cut
    for r in range(rows):
        product = confidence[r] * (len(edges) - 1)
        if abs(product - np.floor(product + 0.5)) <= margin:
            if logits:
                row = flat[(start + r) * columns : (start + r + 1) * columns]
                confidence[r] = 1 / sum_of_exponentials(row, top[r])
            where[r] = bin_at_edge(confidence[r], edges, right) + (len(edges) - 1) * (r % 2)


@_compiled_apart
def _add_rows(flat, labels, columns, cut, logits, checks, tables):
    """Add the rows of a flat array in which the vectors of the last row end before it does."""
    alone, tolerance = checks
    tally, sums = tables
    bins, margin, valid = len(cut[0]) - 1, cut[2], True
    top, confidence = np.zeros(_TILE, np.float32), np.zeros(_TILE)
    correct, where = np.zeros(_TILE, np.int64), np.zeros(_TILE, np.int64)
    doubtful = np.zeros(_TILE + 1, np.int64)
    step = max(1, min(_TILE, _CACHED // columns))
    for start in range(0, len(labels), step):
        given = labels[start : start + step]
        rows = len(given)
        if logits:
            valid &= _tile_of_logits(flat, start, rows, columns, top, confidence)
        else:
            valid &= _tile_of_probabilities(
                flat, start, rows, columns, tolerance, top, confidence
            )  # fmt: skip
        known = _find_correct(
            flat, given, start, columns, alone, top, confidence, correct, doubtful
        )  # fmt: skip
        if _find_bins(confidence, rows, bins, margin, where):
            _find_bins_at_edges(flat, start, rows, columns, cut, logits, top, confidence, where)
        if known:
            for r in range(rows):
                tally[where[r]] += 1 + (correct[r] << 32)
                sums[where[r]] += confidence[r]
        else:
            valid &= _add_known(given, correct, confidence, where, tables)
    return valid


@_compiled_apart
def _add_known(labels, correct, confidence, where, tables):
    """Add the rows with a label; whether the labels of all others are −100."""
    tally, sums = tables
    valid = True
    for r in range(len(labels)):
        if correct[r] >= 0:
            tally[where[r]] += 1 + (correct[r] << 32)
            sums[where[r]] += confidence[r]
        else:
            valid &= labels[r] == -100
    return valid


def add_tops(
    scores: np.ndarray,
    labels: np.ndarray,
    cut: tuple[np.ndarray, bool, float],
    logits: bool,
    checks: tuple[float, float],
    tables: tuple[np.ndarray, np.ndarray],
) -> bool:
    """Add each row of a float32 (n, K) matrix to the bin of its confidence, save those of −100.

    ``cut`` is the edges, whether bins are closed at the right, and how near to an edge a closer
    look is needed. ``checks``: the confidence above which no row has two equal maxima, and how far
    a sum of probabilities may be from 1. To the first of ``tables`` go the rows of each bin plus
    2^32 times those that are correct, to the second the confidences; both hold all bins twice.

    Returns whether all scores and labels are surely valid; if not, the sums are of no use.
    """
    n, columns = scores.shape
    flat = scores.reshape(-1)
    reach = columns - columns % LANES + LANES  # How far the vectors of a row go.
    last = min(n, (reach + columns - 1) // columns - 1)  # Rows too near to the end for that.
    valid = _add_rows(flat, labels[: n - last], columns, cut, logits, checks, tables)
    copied = np.zeros(last * columns + reach, np.float32)
    copied[: last * columns] = flat[(n - last) * columns :]
    copied.flags.writeable = False  # As the others are, or all would be compiled twice.
    rest = _add_rows(copied, labels[n - last :], columns, cut, logits, checks, tables)
    return bool(valid and rest)
