"""The sweep of :mod:`calibrant.calibrators.moments`, compiled: one pass, all cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from calibrant.calibrators.exponential import exp_nonpositive
from calibrant.calibrators.moments import Moments

__all__ = ["moments"]

# Fused multiply-add; there is no NaN (logits are finite) and the sign of zero does not matter.
_FAST = {"contract", "nnan", "nsz"}
_PARTS = 32  # Row ranges summed apart: the same for any number of threads, hence the same result.
_LANES = (
    72  # Rows transposed at a time: an odd multiple of 8, so that columns spread over the cache.
)


def moments(logits: np.ndarray, labels: np.ndarray, beta: float) -> Moments:
    """The moments at ``beta``, and the NLL at β = 1, in one pass."""
    n = len(labels)
    cuts = np.linspace(0, n, _PARTS + 1).astype(int)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        parts = threads.map(
            lambda low, high: _part(logits[low:high], labels[low:high], beta), cuts, cuts[1:]
        )
        table = np.array(list(parts))
    nll, first, second, third, identity = (float(s) for s in table[:, :5].sum(axis=0) / n)
    spread, wrong = float(-table[:, 5].min()), int(table[:, 6].sum())
    return Moments(nll, first, second, third, spread, wrong, identity)


def _part(logits: np.ndarray, labels: np.ndarray, beta: float) -> np.ndarray:
    """The sums of one range of rows; numba lets go of the interpreter's lock meanwhile."""
    wide = np.result_type(logits.dtype, np.float32)  # numba has no float16.
    result: np.ndarray = _sums(np.ascontiguousarray(logits, wide), labels, beta)
    return result


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _sums(logits, labels, beta):  # type: ignore[no-untyped-def]
    n, classes = logits.shape
    z = np.empty((classes, _LANES))
    work = np.zeros((7, _LANES))
    result = np.zeros(7)
    for start in range(0, n, _LANES):
        rows = min(_LANES, n - start)
        _load(logits, start, rows, z, work)
        for k in range(classes):
            _add_class(z[k], beta, work[0], work[1], work[2], work[3])
            _add_class_at_one(z[k], work[4], work[6])
        for j in range(rows):
            work[5, j] = z[labels[start + j], j]
        _reduce(work, rows, beta, result)
    result[5] = work[6].min()
    return result


@numba.njit(fastmath=_FAST)
def _load(logits, start, rows, z, work):  # type: ignore[no-untyped-def]
    """z = l − max l of a few rows, classes first; lanes beyond the rows are all 0."""
    classes = len(z)
    z[:, rows:] = 0.0
    for j in range(rows):
        for k in range(classes):
            z[k, j] = logits[start + j, k]
    work[:6] = 0.0
    top = work[0]
    top[:] = z[0]
    for k in range(1, classes):
        _raise_to(top, z[k])
    for k in range(classes):
        _subtract(z[k], top)
    top[:] = 0.0


# One-dimensional loops over contiguous rows: the form that LLVM vectorises.
@numba.njit(fastmath=_FAST)
def _raise_to(top, row):  # type: ignore[no-untyped-def]
    for j in range(len(top)):
        top[j] = max(top[j], row[j])


@numba.njit(fastmath=_FAST)
def _subtract(row, top):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] -= top[j]


@numba.njit(fastmath=_FAST)
def _add_class(z, beta, total, first, second, third):  # type: ignore[no-untyped-def]
    """Σ e, Σ e z, Σ e z², Σ e z³ with e = exp(β z), for many rows at once."""
    for j in range(len(z)):
        x = z[j]
        e = exp_nonpositive(beta * x)
        total[j] += e
        e *= x
        first[j] += e
        e *= x
        second[j] += e
        third[j] += e * x


@numba.njit(fastmath=_FAST)
def _add_class_at_one(z, total, lowest):  # type: ignore[no-untyped-def]
    for j in range(len(z)):
        total[j] += exp_nonpositive(z[j])
        lowest[j] = min(lowest[j], z[j])


@numba.njit(fastmath=_FAST)
def _reduce(work, rows, beta, result):  # type: ignore[no-untyped-def]
    """Add the rows' NLL, its three derivatives and its value at β = 1; count the misses.

    Σ log t_i = log Π t_i: one logarithm for many rows, taken before the product can overflow.
    """
    product, product_at_one = 1.0, 1.0
    for j in range(rows):
        inverse, y = 1.0 / work[0, j], work[5, j]
        mean, square, cube = work[1, j] * inverse, work[2, j] * inverse, work[3, j] * inverse
        result[0] -= beta * y
        result[1] += mean - y
        result[2] += square - mean * mean
        result[3] += cube - mean * (3 * square - 2 * mean * mean)
        result[4] -= y
        result[6] += y < 0
        product *= work[0, j]
        product_at_one *= work[4, j]
        if product > 1e100 or product_at_one > 1e100:
            result[0] += np.log(product)
            result[4] += np.log(product_at_one)
            product, product_at_one = 1.0, 1.0
    result[0] += np.log(product)
    result[4] += np.log(product_at_one)
