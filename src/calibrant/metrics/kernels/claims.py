"""The compiled passes over claims: one confidence per row (extra ``fast``).

NumPy needs one pass per sum, each with its own intermediates. Here a row is read once for all sums
of a table. This module imports numba; only :func:`calibrant.metrics.kernel_dispatch.claim_kernels`
imports this module.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np

from calibrant.metrics.kernels.rows import (
    bin_of,
    bits_of,
    compiled,
    from_bits,
    in_block,
    log_sum,
    reordered,
)

__all__ = ["RIGHT", "TURNS", "add_claims", "add_labels", "add_sketch", "place_rows"]

RIGHT = 32  # A tally is the number of claims, plus that of the right ones shifted by so many bits.
TURNS = 4  # Parts of the tables of one block at which claims take turns, a power of 2.
_SMALL = 1e-100  # The product of two numbers above this does not underflow.
_TILE = 256  # Rows at a time: what is computed of them by vectors stays in the first-level cache.
_BIAS, _MANTISSA = 1023, (1 << 52) - 1
_LN2, _ROOT = math.log(2), math.sqrt(2)


@compiled
def add_claims(confidence, right, block, cut, tables):
    """Add each claim to its bin and block: tally, Σ c, −Σ log(c or 1 − c), Σ 2 (c − a)².

    Tally and Σ c are flat: bins of the first block, then of the next. Without blocks, claims take
    turns at ``TURNS`` parts of them, which the caller adds up: an addition to a bin need not wait
    for the one before. Places are unsigned, as numba checks others for counting from the end.
    """
    edges, closed, margin, _ = cut
    tally, total, nll, brier = tables
    bins = np.uint64(len(edges) - 1)
    place, claimed, chance = np.empty(_TILE, np.int32), np.empty(_TILE), np.empty(_TILE)
    found = place.view(np.uint32)
    product = np.ones(len(nll))
    for start in range(0, len(confidence), _TILE):
        given, true, where = _tile(start, confidence, right, block)
        rows = len(given)
        if _guess_bins(given, true, (bins, margin), (place, claimed, chance)):
            for r in range(rows):
                place[r] = bin_of(claimed[r], edges, closed, margin)
        if len(where):
            for r in range(rows):
                cell = np.uint64(where[r]) * bins + found[r]
                _add_claim(cell, true[r], claimed[r], tally, total)
            _add_losses(where, chance, product, nll, brier)
        else:
            for r in range(rows):
                cell = np.uint64(r & (TURNS - 1)) * bins + found[r]
                _add_claim(cell, true[r], claimed[r], tally, total)
            brier[0] += _squares(chance, rows)
            nll[0] -= log_sum(chance, rows)
    for b in range(len(nll)):
        nll[b] -= math.log(product[b])


@compiled
def _add_claim(cell, right, claimed, tally, total):
    tally[cell] += 1 + (np.int64(right) << RIGHT)
    total[cell] += claimed


@compiled
def _tile(start, confidence, right, block):
    """Return the columns of one tile, of which that of blocks may be empty.

    They are slices because ``confidence[start + r]`` would not be read by plain vectors: numba
    lets the sum be negative, and count from the end.
    """
    rows = slice(start, start + _TILE)
    return confidence[rows], right[rows], block[rows]


@reordered
def _guess_bins(confidence, right, shape, columns):
    """Write the bin, c and the probability of what happened of each claim, by vectors.

    Return whether any confidence is so near an edge that its bin needs a look at the edges.
    """
    bins, margin = shape
    place, claimed, chance = columns
    near = np.int32(0)
    for r in range(len(confidence)):
        c = min(max(np.float64(confidence[r]), 0.0), 1.0)
        claimed[r] = c
        chance[r] = c if right[r] else 1 - c
        product = c * bins
        guess = np.int32(product)
        rest = product - guess
        place[r] = guess
        near |= np.int32(rest <= margin) | np.int32(rest >= 1 - margin)
    return near


@reordered
def _squares(chance, rows):
    """Return Σ 2 (1 − chance)² of some rows."""
    total = 0.0
    for r in range(rows):
        total += (1 - chance[r]) * (1 - chance[r])
    return 2 * total


@compiled
def _add_losses(block, chance, product, nll, brier):
    """Add −log chance and 2 (1 − chance)² of each claim to its block.

    Logarithms are taken of products, of which each block has one: log(x y) = log x + log y.
    """
    for r in range(len(block)):
        b, p = block[r], chance[r]
        brier[b] += 2 * (1 - p) * (1 - p)
        if p < _SMALL:
            nll[b] -= math.log(p)
        else:
            product[b] *= p
            if product[b] < _SMALL:
                nll[b] -= math.log(product[b])
                product[b] = 1.0


@compiled
def add_labels(confidence, right, about, truth, place, block, tables):
    """Add each claim to its block and the label that it is about: number, Σ c, right ones.

    The fourth sum counts true labels. Labels are at ``place`` in the tables. Without blocks every
    claim belongs to the first.
    """
    if len(block):
        for i in range(len(confidence)):
            sums = tables[np.uint64(block[i]), np.uint64(place[np.uint64(about[i])])]
            sums[0] += 1
            sums[1] += np.float64(confidence[i])
            sums[2] += right[i]
    else:
        _add_labels_of_one_block(confidence, right, about, place, tables[0])
    for i in range(len(truth)):
        tables[in_block(block, i), place[truth[i]], 3] += 1


@compiled
def _add_labels_of_one_block(confidence, right, about, place, sums):
    """Add number, Σ c and right ones of each label, by a tally for both numbers."""
    tally, total = np.zeros(len(place), np.int64), np.zeros(len(place))
    for i in range(len(confidence)):
        k = np.uint64(about[i])
        tally[k] += 1 + (np.int64(right[i]) << RIGHT)
        total[k] += np.float64(confidence[i])
    for label in range(len(place)):
        correct = tally[label] >> RIGHT
        sums[place[label], 0] += tally[label] - (correct << RIGHT)
        sums[place[label], 1] += total[label]
        sums[place[label], 2] += correct


@compiled
def add_sketch(confidence, right, cut, tables):
    """Add each confidence to its bin of the log-odds: number, right ones, Σ c."""
    count, correct, total = tables
    place, claimed = np.empty(_TILE, np.int32), np.empty(_TILE)
    found = place.view(np.uint32)
    for start in range(0, len(confidence), _TILE):
        given, true = confidence[start : start + _TILE], right[start : start + _TILE]
        _place_log_odds(given, cut, place, claimed)
        for r in range(len(given)):
            k = np.uint64(found[r])
            count[k] += 1
            correct[k] += true[r]
            total[k] += claimed[r]


@reordered
def _place_log_odds(confidence, cut, place, claimed):
    """Write c and its bin of the log-odds, as ``bin_numbers`` does; ``cut`` is that of a sketch."""
    limit, width, certain, bins = cut
    last = np.float64(bins - 1)
    for r in range(len(confidence)):
        claimed[r] = min(max(np.float64(confidence[r]), 0.0), 1.0)
    for r in range(len(confidence)):
        c = claimed[r]
        k = np.int32(min(max((_log_odds(c) + limit) / width, 0.0), last))
        k = bins - 1 if c >= certain else k
        place[r] = k if c > 0 else 0


@compiled
def _log_odds(p):
    """Return log(p / (1 − p)) of 0 < p < 1, within the rounding of NumPy's logarithm.

    With mantissas m, n and exponents e, f of p and 1 − p, one of them halved if the other is √2
    times smaller: (e − f) log 2 + log(m / n), and log(m / n) = 2 artanh(s), s = (m − n) / (m + n).
    """
    above, below = bits_of(p), bits_of(1 - p)
    m = from_bits((above & _MANTISSA) | (_BIAS << 52))
    n = from_bits((below & _MANTISSA) | (_BIAS << 52))
    exponent = np.float64((above >> 52) - (below >> 52))
    larger, smaller = m > _ROOT * n, n > _ROOT * m
    exponent += (1.0 if larger else 0.0) - (1.0 if smaller else 0.0)
    m = 0.5 * m if larger else m
    n = 0.5 * n if smaller else n
    s = (m - n) / (m + n)
    z = s * s  # At most 0.0295, so that ten terms of the series are exact.
    series = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19)))
    series = 1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * series)))
    return exponent * _LN2 + 2 * s * (1 + z * (1 / 3 + z * series))


@compiled
def place_rows(start, blocks, block):
    """Write the block of each row: its number, and from ``blocks`` on a hash of it (SplitMix64)."""
    for i in range(len(block)):
        row = start + i
        if row < blocks:
            block[i] = row
        else:
            bits = np.uint64(row) + np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            block[i] = (bits ^ (bits >> np.uint64(31))) % np.uint64(blocks)
