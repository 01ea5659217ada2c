"""The compiled pass for the bins of the top-label confidence of float32 scores (extra ``fast``).

One pass finds the largest score of each row, its confidence and its bin, and reports whether any
score or label might be wrong, so that unchecked data is read once. Rows are taken
in vectors of 16 floats (:mod:`calibrant.metrics.kernels.simd_vector`); the last vector of a row
reaches into the next one, whose values are ignored. Rows of up to 16 scores are taken
side by side (:mod:`calibrant.metrics.kernels.short_rows`).

Exponentials are taken in float32, correct to about one unit in its last place, which
``docs/decisions/0006`` justifies. Confidences so close to an edge that this could matter
are computed again in float64, so counts are those of float64, to the last one.

This module imports numba; only :mod:`calibrant.metrics.top_bins` imports this module.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant.metrics.kernels.rows import bin_at_edge, compiled, sum_of_exponentials
from calibrant.metrics.kernels.short_rows import tops_of_logits, tops_of_probabilities
from calibrant.metrics.kernels.simd_exponential import DEEP, exponential_in_lanes
from calibrant.metrics.kernels.simd_memory import announce, load
from calibrant.metrics.kernels.simd_vector import (
    LANES,
    count_equal,
    keep_first,
    larger,
    largest,
    same,
    smaller,
    smallest,
    sum_of_lanes,
)

__all__ = ["TABLES", "add_tops", "margin"]

# Scores may be NaN: detecting that is part of the work.
_compiled = partial(compiled, mathematics={"contract", "nsz"})
# A call per tile costs nothing, and compiling once instead of per call saves seconds.
_compiled_apart = partial(_compiled, inline=False)

_LOWEST, _HIGHEST = np.finfo(np.float32).min, np.finfo(np.float32).max
_ZERO = np.float32(0)
_SPAN = 1024  # Columns summed in float32 before float64 takes their sum.
_TILE = 256  # Rows at a time, at most,
_CACHED = 4096  # and scores: half of the first-level cache.
TABLES = 4  # Rows alternate between them: an addition to a bin need not wait for those just before.


def margin(bins: int, columns: int) -> float:
    """Bound the distance of confidence · bins of :func:`add_tops` from float64's, for logits.

    In units of 2^−24: rounding of Σ exp, in each lane and of lanes with lanes, or in short rows of
    fours and within them; of an exponential, 3; of the score differences d,
    Σ d e^−d / Σ e^−d ≤ log K; doubled for safety.
    """
    sums = min(columns, _SPAN) / LANES + 4 if columns > LANES else columns / 4 + 2
    units = sums + 3 + math.log(columns)
    return 2 * bins * units * 2.0**-24


@_compiled
def _top_of_logits(flat, start, columns, low):
    """Return the largest score of a row, and the smallest numbers of each lane so far."""
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
    """Return Σ_k exp(score − top) of a row; prefetch the scores ``ahead`` places further."""
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
    """Return the largest probability of a row, their sum, and the smallest of each lane so far."""
    whole = columns - columns % LANES
    total = keep_first(load(flat, start + whole), columns - whole, _ZERO)
    top, low = total, smaller(total, low)
    for k in range(0, whole, LANES):
        scores = load(flat, start + k)
        top, low, total = larger(scores, top), smaller(scores, low), total + scores
    return largest(top), sum_of_lanes(total), low


@_compiled_apart
def _tile_of_logits(flat, start, rows, columns, top, confidence):
    """Find top score and confidence of some rows; whether all scores are surely finite."""
    low, highest = same(_HIGHEST), _LOWEST
    for r in range(rows):
        top[r], low = _top_of_logits(flat, (start + r) * columns, columns, low)
    for r in range(rows):
        highest = max(highest, top[r])
    spread = highest - smallest(low)
    deep = spread > DEEP
    for r in range(rows):
        row = (start + r) * columns
        confidence[r] = _sum_of_row(flat, row, columns, top[r], deep, 2 * rows * columns)
    finite = spread < _HIGHEST
    for r in range(rows):
        finite &= confidence[r] >= 0.5  # The top score alone contributes 1; NaN is not ≥ anything.
        confidence[r] = 1 / confidence[r]
    return finite


@_compiled_apart
def _tile_of_probabilities(flat, start, rows, columns, tolerance, top, confidence):
    """Find the same; whether all probabilities are surely in 0..1, and sum to 1."""
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
    """Find whether the label has the largest score, in long rows.

    It searches for an earlier column with the same score only if the confidence allows for two,
    and then in a separate loop: the processor cannot predict this branch.
    """
    doubts = 0
    for r in range(len(labels)):
        label = labels[r] if 0 <= labels[r] < columns else 0
        correct[r] = flat[(start + r) * columns + label] == top[r]
    for r in range(len(labels)):
        doubtful[doubts] = r
        doubts += (correct[r] == 1) & (confidence[r] <= alone)
    for d in range(doubts):
        r = doubtful[d]
        label = min(labels[r], columns)  # A label outside the classes must not leave the row.
        correct[r] = _is_first(flat, (start + r) * columns, columns, label, top[r])


@_compiled
def _are_known(labels, columns):
    """Whether all labels are classes."""
    known = True
    for r in range(len(labels)):
        known &= (labels[r] >= 0) & (labels[r] < columns)
    return known


@_compiled
def _find_bins(confidence, rows, bins, margin, where):
    """Find the bin of each confidence; whether one is so near to an edge that it may be wrong."""
    near = False
    for r in range(rows):
        product = confidence[r] * bins
        where[r] = min(max(int(product), 0), bins - 1) + bins * (r % TABLES)
        edge = np.floor(product + 0.5)
        near |= (abs(product - edge) <= margin) & (edge > 0) & (edge < bins)
    return near


@_compiled_apart
def _find_bins_at_edges(flat, start, rows, columns, cut, logits, top, confidence, where):
    """Find the same if it may be wrong, from confidences in float64."""
    edges, right, margin = cut
    for r in range(rows):
        product = confidence[r] * (len(edges) - 1)
        if abs(product - np.floor(product + 0.5)) <= margin:
            if logits:
                row = flat[(start + r) * columns : (start + r + 1) * columns]
                confidence[r] = 1 / sum_of_exponentials(row, top[r])
            where[r] = bin_at_edge(confidence[r], edges, right) + (len(edges) - 1) * (r % TABLES)


@_compiled
def _find_tops(flat, labels, start, columns, logits, checks, work):
    """Find confidences of some rows, and which are correct; whether all scores are surely valid."""
    rows, (alone, tolerance) = len(labels), checks
    top, total, place, confidence, correct, doubtful = work
    if columns > LANES:
        if logits:
            valid = _tile_of_logits(flat, start, rows, columns, top, confidence)
        else:
            valid = _tile_of_probabilities(flat, start, rows, columns, tolerance, top, confidence)
        _find_correct(flat, labels, start, columns, alone, top, confidence, correct, doubtful)
        return valid
    if logits:
        valid = tops_of_logits(flat, start, rows, columns, top, place, total, confidence)
    else:
        valid = tops_of_probabilities(flat, start, rows, columns, tolerance, top, place, confidence)
    for r in range(rows):
        correct[r] = np.int32(place[r]) == labels[r]
    return valid


@_compiled_apart
def _add_rows(flat, labels, columns, cut, logits, checks, tables):
    """Add the rows of a flat array in which the vectors of the last row end before it does."""
    tally, sums = tables
    bins, margin, valid = len(cut[0]) - 1, cut[2], True
    top, total, place = np.zeros((3, _TILE), np.float32)
    confidence, where = np.zeros(_TILE), np.zeros(_TILE, np.int64)
    correct, doubtful = np.zeros(_TILE, np.int64), np.zeros(_TILE + 1, np.int64)
    work = top, total, place, confidence, correct, doubtful
    step = max(1, min(_TILE, _CACHED // columns))
    for start in range(0, len(labels), step):
        given = labels[start : start + step]
        rows = len(given)
        valid &= _find_tops(flat, given, start, columns, logits, checks, work)
        if _find_bins(confidence, rows, bins, margin, where):
            _find_bins_at_edges(flat, start, rows, columns, cut, logits, top, confidence, where)
        if _are_known(given, columns):
            for r in range(rows):
                tally[where[r]] += 1 + (correct[r] << 32)
                sums[where[r]] += confidence[r]
        else:
            valid &= _add_known(given, columns, correct, confidence, where, tables)
    return valid


@_compiled_apart
def _add_known(labels, columns, correct, confidence, where, tables):
    """Add the rows with a label; return whether the labels of all others are −100."""
    tally, sums = tables
    valid = True
    for r in range(len(labels)):
        if 0 <= labels[r] < columns:
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
    """Add each row of a float32 (n, K) matrix to the bin of its confidence, except −100 rows.

    ``cut`` is the edges, whether bins are closed at the right, and how near to an edge a closer
    look is needed. ``checks``: the confidence above which no row has two equal maxima, and how far
    a sum of probabilities may be from 1. The first of ``tables`` takes the rows of each bin plus
    2^32 times those that are correct, the second the confidences; both hold all bins
    :data:`TABLES` times.

    Return whether all scores and labels are surely valid; if not, the sums are useless.
    """
    n, columns = scores.shape
    # Vectors reach beyond the end of a long row; short rows are read in sixteens.
    last, needed = (1, 2) if columns > LANES else (n - (n - 1) // LANES * LANES, LANES + 1)
    flat, first = scores.reshape(-1), n - last
    valid = _add_rows(flat, labels[:first], columns, cut, logits, checks, tables)
    # The rest, padded by repeats of the last row, which are valid if it is.
    copied = scores[np.minimum(np.arange(first, first + needed), n - 1)].reshape(-1)
    copied.flags.writeable = False  # Read-only like the others, or all would be compiled twice.
    rest = _add_rows(copied, labels[first:], columns, cut, logits, checks, tables)
    return bool(valid and rest)
