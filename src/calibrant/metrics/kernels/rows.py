"""The compiled pass over the scores (extra ``fast``): the same as accumulate.py's NumPy code.

Rows are taken in tiles that stay in the first-level cache. The loops are written so that LLVM
turns them into vector instructions: reductions may be reassociated, the maximum is an intrinsic,
and the exponential is arithmetic alone. No result of a row depends on its neighbours, on the
number of threads or on where a chunk begins, so counts of parts add up to the counts of the whole.

This module imports numba; :mod:`calibrant.metrics.kernel_dispatch` decides whether it is loaded.
It is one file because numba keeps machine code until the file of the compiled function changes,
and would not see a change in another file.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending

__all__ = [
    "add_rows",
    "add_tops",
    "bin_at_edge",
    "bin_of",
    "bits_of",
    "compiled",
    "exponential",
    "from_bits",
    "in_block",
    "intrinsic",
    "log_sum",
    "reordered",
    "sum_of_exponentials",
    "top_rows",
]

_ROWS = 64  # Rows per tile; a constant, so that loops over rows are whole vectors.
_NARROW = 24  # Up to this many columns vectors run over rows, beyond over columns.

# Scores are finite, so NaN needs no care, and the sign of zero never matters.
_FINITE = {"contract", "nnan", "nsz"}

# Numba infers types from calls; its decorators are opaque to a type checker.
_njit: Any = numba.njit
intrinsic: Any = extending.intrinsic


def compiled(
    function: Callable[..., Any], mathematics: Set[str] = _FINITE, inline: bool = True
) -> Any:
    """Compile at the first call, without the GIL; cache the machine code on disk if allowed."""
    options = {
        "nogil": True,
        "fastmath": set(mathematics),
        "error_model": "numpy",
        "forceinline": inline,  # A call per row costs as much as a short row.
    }
    try:
        return _njit(cache=True, **options)(function)
    except RuntimeError:  # Neither the package's folder nor the user's cache is writable.
        return _njit(**options)(function)


def reordered(function: Callable[..., Any]) -> Any:
    """Compile with sums that may be reordered, as vector instructions need."""
    return compiled(function, _FINITE | {"reassoc"})


@intrinsic
def _maximum(_: Any, left: Any, right: Any) -> Any:
    """Return max(left, right) as the LLVM intrinsic, the form that becomes a vector maximum."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        name = builder.module.declare_intrinsic(
            "llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind])
        )
        return builder.call(name, arguments, fastmath=("nnan", "nsz", "reassoc"))

    return left(left, right), generate


@intrinsic
def bits_of(_: Any, value: Any) -> Any:
    """Return the 64 bits of a float as an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return numba.types.int64(value), generate


@intrinsic
def from_bits(_: Any, bits: Any) -> Any:
    """Return the float with these 64 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return numba.types.float64(bits), generate


_LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first short enough that its product with the exponent is exact.
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUND = 1.5 * 2.0**52  # Adding this leaves the nearest whole number in the lowest bits.
_LOWEST = -700.0  # e^−700 ≈ 1e−304 is still a normal number, and negligible next to e^0 = 1.
_LN2 = math.log(2)
_BIAS, _MANTISSA, _SMALLEST_NORMAL = 1023, (1 << 52) - 1, 2.0**-1022
# e^r ≈ 1 + r + Σ_i c_i r^i with the least maximum of the relative error (Remez): 4e−18 for
# abs(r) ≤ ln 2 / 2.
_C2, _C3, _C4 = 0.5000000000000011, 0.16666666666666413, 0.041666666666530155
_C5, _C6, _C7 = 0.008333333333494461, 0.0013888888943630114, 1.9841269506578688e-4
_C8, _C9 = 2.480149309890655e-5, 2.7557586373840165e-6
_C10, _C11 = 2.763024837921144e-7, 2.5000061602835666e-8


@compiled
def exponential(x):
    """Return e^x for x ≤ 0, within 2 units in the last place; e^0 is exactly 1.

    x = k ln 2 + r with abs(r) ≤ ln 2 / 2; e^r by a polynomial, and k added to the exponent bits.
    """
    x = _maximum(x, _LOWEST)
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _C9 + r * (_C10 + r * _C11)
    p = _C7 + r * (_C8 + r * p)
    p = _C5 + r * (_C6 + r * p)
    p = _C3 + r * (_C4 + r * p)
    p = 1.0 + r * (1.0 + r * (_C2 + r * p))
    return from_bits(bits_of(p) + (bits_of(shifted) << 52))


@reordered
def _turn(scores, start, rows, tile):
    """Copy some short rows as columns, so that vectors run over rows."""
    for r in range(rows):
        for k in range(scores.shape[1]):
            tile[k, r] = scores[start + r, k]


@compiled
def _narrow_top(tile, top, predicted, squares):
    """Find the largest score of each column of a turned tile, its first place, and Σ_k score²."""
    for r in range(_ROWS):
        top[r], predicted[r], squares[r] = tile[0, r], 0, tile[0, r] * tile[0, r]
    for k in range(1, len(tile)):
        for r in range(_ROWS):
            score = tile[k, r]
            predicted[r] = k if score > top[r] else predicted[r]
            top[r] = score if score > top[r] else top[r]
            squares[r] += score * score


@compiled
def _narrow_exponentials(tile, top, total, squares):
    """Replace each score by exp(score − top); find the sum and that of the squares."""
    for r in range(_ROWS):
        total[r] = squares[r] = 0.0
    for k in range(len(tile)):
        for r in range(_ROWS):
            tile[k, r] = exponential(tile[k, r] - top[r])
        for r in range(_ROWS):
            total[r] += tile[k, r]
            squares[r] += tile[k, r] * tile[k, r]


@reordered
def _highest(scores, i):
    """Return the largest score of a long row."""
    highest = scores[i, 0]
    for k in range(scores.shape[1]):
        highest = _maximum(highest, scores[i, k])
    return highest


@reordered
def _first_place(scores, i, highest):
    """Return the first place of the largest score of a long row."""
    none = np.int32(scores.shape[1])
    place = none
    for k in range(scores.shape[1]):
        here = np.int32(k) if scores[i, k] == highest else none
        place = here if here < place else place
    return min(np.int64(place), scores.shape[1] - 1)


@reordered
def _wide_exponentials(row, top, out):
    """Write exp(score − top) of a long row; return the sum and the sum of the squares."""
    total, square = 0.0, 0.0
    for k in range(len(row)):
        e = exponential(np.float64(row[k]) - top)
        out[k] = e
        total += e
        square += e * e
    return total, square


@reordered
def _wide_squares(row):
    square = 0.0
    for k in range(len(row)):
        square += np.float64(row[k]) * np.float64(row[k])
    return square


@compiled
def bin_at_edge(value, edges, right):
    """Return the bin of a value, compared with the edges on both sides as in Bins.index."""
    last = len(edges) - 2
    guess = min(max(int(value * (last + 1)), 0), last)
    if right:
        guess -= value <= edges[guess]
        guess += value > edges[max(guess, 0) + 1]
    else:
        guess -= value < edges[guess]
        guess += value >= edges[max(guess, 0) + 1]
    return min(max(guess, 0), last)


@compiled
def bin_of(value, edges, right, margin):
    """Return the bin, but look at the edges only if value · bins is within margin of a whole."""
    bins = len(edges) - 1
    product = value * bins
    guess = int(product)
    rest = product - guess
    if rest > margin and rest < 1 - margin:
        return max(0, min(guess, bins - 1))  # Rounding can put a probability slightly above 1.
    return bin_at_edge(value, edges, right)


@compiled
def in_block(block, row):
    """Return the block of a row; without blocks every row belongs to the first."""
    return block[row] if len(block) else 0


@reordered
def log_sum(values, rows):
    """Return Σ log v over some rows: log of the product of mantissas, plus the exponents."""
    lowest = 1.0
    for r in range(rows):
        lowest = -_maximum(-lowest, -values[r])
    if lowest < _SMALLEST_NORMAL:
        total = 0.0
        for r in range(rows):
            total += math.log(max(values[r], 0.0))
        return total
    product, exponents = 1.0, 0
    for r in range(rows):
        bits = bits_of(values[r])
        exponents += (bits >> 52) - _BIAS
        product *= from_bits((bits & _MANTISSA) | (_BIAS << 52))
    return math.log(product) + exponents * _LN2


@compiled
def _add_scores(block, start, rows, likelihood, offset, squares, chosen, scored):
    """Add −log p_y = offset − log likelihood, and Σ_k (p_k − 1[y = k])² = Σ_k p_k² − 2 p_y + 1."""
    nll, brier = scored
    if len(block):
        for r in range(rows):
            nll[block[start + r]] += offset[r] - math.log(max(likelihood[r], 0.0))
            brier[block[start + r]] += squares[r] - 2 * chosen[r] + 1
        return
    losses, distances = 0.0, 0.0
    for r in range(rows):
        losses += offset[r]
        distances += squares[r] - 2 * chosen[r] + 1
    nll[0] += losses - log_sum(likelihood, rows)
    brier[0] += distances


@compiled
def _add_top(labels, block, start, rows, predicted, confidence, where, shape, tables):
    """Add each row to its bin, its label and its predicted class; tables are flat."""
    top_count, top_confidence, top_correct, label_count = tables[:4]
    predicted_count, predicted_confidence, predicted_correct = tables[4:]
    classes, bins = shape
    for r in range(rows):
        g = in_block(block, start + r)
        c, correct = confidence[r], predicted[r] == labels[start + r]
        cell = g * bins + where[r]
        top_count[cell] += 1
        top_confidence[cell] += c
        top_correct[cell] += correct
        label_count[g * classes + labels[start + r]] += 1
        cell = g * classes + predicted[r]
        predicted_count[cell] += 1
        predicted_confidence[cell] += c
        predicted_correct[cell] += correct


@compiled
def _add_narrow_classes(block, start, rows, tile, scale, cut, tables):
    """Add each probability of a turned tile to its class and bin.

    It adds class after class, so that additions to the same cell do not wait for each other.
    """
    edges, right, margin, _ = cut
    count, confidence = tables[:2]
    for r in range(rows):
        g = in_block(block, start + r)
        for k in range(len(tile)):
            p = tile[k, r] * scale[r]
            b = bin_of(p, edges, right, margin)
            count[g, k, b] += 1
            confidence[g, k, b] += p


@reordered
def _add_wide_classes(row, scale, cut, tables):
    """Add each probability of a long row to its class and bin.

    Most are small: those of the first bin are added by vectors, class beside class, to ``low``,
    and only the others are added to their bins one at a time.
    """
    edges, right, margin, lowest = cut
    count, confidence, low_count, low = tables
    for k in range(len(row)):
        p = row[k] * scale
        low_count[k] += p <= lowest
        low[k] += p if p <= lowest else 0.0
    for k in range(len(row)):
        p = row[k] * scale
        if p > lowest:
            b = bin_of(p, edges, right, margin)
            count[k, b] += 1
            confidence[k, b] += p


@compiled
def _narrow_rows(scores, labels, start, rows, logits, tile, predicted, work):
    """Compute confidence, p_y, Σ p², −log p_y = offset − log …, and the tile's factor, per row."""
    confidence, chosen, squares, offset, scale = work
    _turn(scores, start, rows, tile)
    _narrow_top(tile, confidence, predicted, squares)
    if logits:
        for r in range(rows):
            offset[r] = confidence[r] - tile[labels[start + r], r]
        _narrow_exponentials(tile, confidence, scale, squares)
        for r in range(_ROWS):
            scale[r] = confidence[r] = 1 / scale[r]
            squares[r] *= scale[r] * scale[r]
    for r in range(rows):
        chosen[r] = tile[labels[start + r], r] * scale[r]


@compiled
def _wide_rows(
    scores, labels, block, start, rows, logits, row, predicted, work, cut, class_tables, low
):
    """Compute the same for long rows, each added to the class tables while it is in the cache."""
    confidence, chosen, squares, offset, _ = work
    for r in range(rows):
        given, label, g = scores[start + r], labels[start + r], in_block(block, start + r)
        highest = _highest(scores, start + r)
        top, predicted[r] = np.float64(highest), _first_place(scores, start + r, highest)
        if logits:
            total, square = _wide_exponentials(given, top, row)
            confidence[r] = 1 / total
            chosen[r] = row[label] * confidence[r]
            squares[r] = square * confidence[r] * confidence[r]
            offset[r] = top - np.float64(given[label])
        else:
            confidence[r], chosen[r], offset[r] = top, given[label], 0.0
            squares[r] = _wide_squares(given)
        if class_tables[0].shape[1]:
            tables = class_tables[0][g], class_tables[1][g], low[0][g], low[1][g]
            if logits:
                _add_wide_classes(row, confidence[r], cut, tables)
            else:
                _add_wide_classes(given, 1.0, cut, tables)


@compiled
def add_rows(scores, labels, block, cut, logits, scored, top_tables, class_tables, low):
    """Add the rows of a (n, K) matrix to the tables of their blocks.

    ``block`` is empty if all rows belong to one; ``cut`` is edges, right and margin as
    :func:`bin_of` takes them, and the largest value of the first bin. The tables are the fields of
    a state with one leading axis: ``scored`` is (nll, brier); ``top_tables`` is top_…, label_count
    and predicted_…, each flat; ``class_tables`` is class_…, of shape (blocks, K or 0, bins).
    ``low``, counts and sums of shape (blocks, K or 0), takes the first bins of long rows.
    """
    n, classes = scores.shape
    edges, right, margin, _ = cut
    shape = classes, len(edges) - 1
    narrow, classwise = classes <= _NARROW, class_tables[0].shape[1] > 0
    tile = np.zeros((classes, _ROWS) if narrow else (1, classes))
    floats = np.zeros((4, _ROWS))
    work = floats[0], floats[1], floats[2], floats[3], np.ones(_ROWS)
    confidence, chosen, squares, offset, scale = work
    predicted, where = np.zeros(_ROWS, np.int64), np.zeros(_ROWS, np.int64)
    for start in range(0, n, _ROWS):
        rows = min(_ROWS, n - start)
        if narrow:
            _narrow_rows(scores, labels, start, rows, logits, tile, predicted, work)
        else:
            _wide_rows(
                scores, labels, block, start, rows, logits, tile[0], predicted, work,
                cut, class_tables, low,
            )  # fmt: skip
        for r in range(rows):
            where[r] = bin_of(confidence[r], edges, right, margin)
        likelihood = confidence if logits else chosen
        _add_scores(block, start, rows, likelihood, offset, squares, chosen, scored)
        _add_top(labels, block, start, rows, predicted, confidence, where, shape, top_tables)
        if classwise:
            if narrow:
                _add_narrow_classes(block, start, rows, tile, scale, cut, class_tables)
            for r in range(rows):
                g, b = in_block(block, start + r), bin_of(chosen[r], edges, right, margin)
                class_tables[2][g, labels[start + r], b] += 1


@reordered
def _short_top(scores, i):
    """Return the largest score of a short row and its first place, in one pass."""
    top, place = scores[i, 0], 0
    for k in range(1, scores.shape[1]):
        place = k if scores[i, k] > top else place
        top = _maximum(top, scores[i, k])
    return top, place


@compiled
def _narrow_sums(tile, top, total):
    """Compute Σ_k exp(score − top) of each column of a turned tile."""
    for r in range(_ROWS):
        total[r] = 0.0
    for k in range(len(tile)):
        for r in range(_ROWS):
            total[r] += exponential(np.float64(tile[k, r]) - np.float64(top[r]))


@reordered
def sum_of_exponentials(row, top):
    """Return Σ_k exp(score − top) of a row."""
    total = 0.0
    for k in range(len(row)):
        total += exponential(np.float64(row[k]) - np.float64(top))
    return total


@compiled
def _confidences(scores, start, rows, logits, tile, top, place, confidence):
    """Find the largest score and confidence of some rows; for short ones also the first place."""
    for r in range(rows):
        i = start + r
        if len(tile):
            top[r], place[r] = _short_top(scores, i)
        else:
            top[r] = _highest(scores, i)
        confidence[r] = (
            1 / sum_of_exponentials(scores[i], top[r]) if logits and not len(tile) else top[r]
        )
    if logits and len(tile):
        _turn(scores, start, rows, tile)
        _narrow_sums(tile, top, confidence)
        for r in range(_ROWS):
            confidence[r] = 1 / confidence[r]


@compiled
def _room(scores):
    """Allocate a turned tile (none for long rows) and four numbers per row of it."""
    columns = scores.shape[1] if scores.shape[1] <= _NARROW else 0
    tile, top = np.zeros((columns, _ROWS), scores.dtype), np.zeros(_ROWS, scores.dtype)
    return tile, top, np.zeros(_ROWS), np.zeros(_ROWS, np.int64), np.zeros(_ROWS, np.int64)


@compiled
def top_rows(scores, logits, confidence, predicted):
    """Write the confidence and the predicted class of each row."""
    tile, top, given, place, _ = _room(scores)
    for start in range(0, len(scores), _ROWS):
        rows = min(_ROWS, len(scores) - start)
        _confidences(scores, start, rows, logits, tile, top, place, given)
        for r in range(rows):
            confidence[start + r] = given[r]
            first = place[r] if len(tile) else _first_place(scores, start + r, top[r])
            predicted[start + r] = first


@compiled
def _find_doubtful(scores, labels, start, rows, alone, top, confidence, place, doubtful):
    """Find the place of the largest score of long rows, or −1 if it is not the label.

    It searches for an earlier column with the same score only if the confidence allows for two,
    and then in a separate loop: the processor cannot predict this branch.
    """
    doubts = 0
    for r in range(rows):
        label = labels[start + r]
        highest = scores[start + r, label] == top[r]
        place[r] = label if highest else -1
        doubtful[doubts] = r
        doubts += highest and confidence[r] <= alone
    for d in range(doubts):
        r = doubtful[d]
        place[r] = _first_place(scores, start + r, top[r])


@compiled
def add_tops(scores, labels, cut, logits, alone, count, confidence, correct):
    """Add each row to the bin of its confidence: exactly what ECE needs.

    ``cut`` as in :func:`add_rows`; above the confidence ``alone`` no row has two equal maxima.
    """
    edges, right, margin, _ = cut
    tile, top, given, place, doubtful = _room(scores)
    for start in range(0, len(scores), _ROWS):
        rows = min(_ROWS, len(scores) - start)
        _confidences(scores, start, rows, logits, tile, top, place, given)
        if not len(tile):
            _find_doubtful(scores, labels, start, rows, alone, top, given, place, doubtful)
        for r in range(rows):
            b = bin_of(given[r], edges, right, margin)
            count[b] += 1
            confidence[b] += given[r]
            correct[b] += place[r] == labels[start + r]
