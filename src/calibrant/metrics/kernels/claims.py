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

from calibrant.metrics.kernels.rows import bin_of, compiled

__all__ = ["RIGHT", "add_claims", "add_labels", "add_sketch", "place_rows"]

RIGHT = 32  # A tally is the number of claims, plus that of the right ones shifted by so many bits.
_SMALL = 1e-100  # The product of two numbers above this does not underflow.


@compiled
def add_claims(confidence, right, block, cut, tables):
    """Add each claim to its bin and block: tally, Σ c, −Σ log(c or 1 − c), Σ 2 (c − a)².

    Logarithms are taken of products, of which each block has one: log(x y) = log x + log y.
    """
    edges, closed, margin, _ = cut
    tally, total, nll, brier = tables
    product = np.ones(len(nll))
    for i in range(len(confidence)):
        given, b = np.float64(confidence[i]), block[i]
        place = bin_of(given, edges, closed, margin)
        c = min(max(given, 0.0), 1.0)
        tally[b, place] += 1 + (np.int64(right[i]) << RIGHT)
        total[b, place] += c
        chance = c if right[i] else 1 - c
        brier[b] += 2 * (1 - chance) * (1 - chance)
        if chance < _SMALL:
            nll[b] -= math.log(chance)
        else:
            product[b] *= chance
            if product[b] < _SMALL:
                nll[b] -= math.log(product[b])
                product[b] = 1.0
    for b in range(len(nll)):
        nll[b] -= math.log(product[b])


@compiled
def add_labels(confidence, right, about, truth, place, block, tables):
    """Add each claim to its block and the label that it is about: number, Σ c, right ones.

    The fourth sum counts true labels. Labels are at ``place`` in the tables.
    """
    for i in range(len(confidence)):
        sums = tables[block[i], place[about[i]]]
        sums[0] += 1
        sums[1] += np.float64(confidence[i])
        sums[2] += right[i]
        if len(truth):
            tables[block[i], place[truth[i]], 3] += 1


@compiled
def add_sketch(place, confidence, right, count, correct, total):
    """Add each confidence to its place in a sketch."""
    for i in range(len(place)):
        k = place[i]
        count[k] += 1
        correct[k] += right[i]
        total[k] += confidence[i]


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
