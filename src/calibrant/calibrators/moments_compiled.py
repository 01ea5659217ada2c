"""The sums of :mod:`calibrant.calibrators.moments`, compiled by numba (extra ``fast``).

A few rows at a time are turned, so that vector instructions run over rows; loops are over one
contiguous axis, the form that LLVM vectorises. One file, because numba keeps machine code until
the file of the compiled function changes, and would not see a change in another.
"""

# Numba infers the types of arguments, so annotations would only repeat what it knows better.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending, types

__all__ = ["exp_nonpositive", "sums_compiled"]

_LANES = 72  # Rows turned at a time: an odd multiple of 8, so that columns spread over the cache.
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # Low bits zero: a whole number times it is exact.
_LN2_LOW = 1.9082149292705877e-10
_MAGIC = 6755399441055744.0  # 1.5 · 2⁵²: adding it leaves the nearest whole number in the low bits.
_LOWEST = -708.0  # exp of it is still a normal number.

_njit: Any = numba.njit
_intrinsic: Any = extending.intrinsic


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile at the first call, without the GIL; keep the machine code on disk where allowed.

    Fused multiply-add is allowed; logits are finite, so there is no NaN, and the sign of zero
    does not matter.
    """
    options = {"nogil": True, "fastmath": {"contract", "nnan", "nsz"}}
    try:
        return _njit(cache=True, **options)(function)
    except RuntimeError:  # Neither the package's folder nor the user's cache can be written.
        return _njit(**options)(function)


def sums_compiled(
    logits: np.ndarray, labels: np.ndarray, beta: float, also_at_one: bool
) -> np.ndarray:
    """Compute the same as :func:`calibrant.calibrators.moments.sums_in_numpy`."""
    kind = np.result_type(logits.dtype, np.float32)  # numba has no float16.
    rows = np.require(logits, kind, ["C", "W"]), np.require(labels, np.int64, ["C", "W"])
    result: np.ndarray = _sums(*rows, beta, also_at_one)
    return result


@_intrinsic
def _bits(_: Any, value: Any) -> Any:
    """Return the bits of a float64 as int64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(value), generate


@_intrinsic
def _float(_: Any, bits: Any) -> Any:
    """Return the float64 whose bits an int64 holds."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(bits), generate


@_compiled
def exp_nonpositive(x):
    """Return exp(x) for x ≤ 0, to 2 units in the last place; exp(−708) for lower x.

    x = m ln 2 + r with |r| ≤ ½ ln 2; exp(r) by its Taylor series to r¹² (error 2e-16), 2ᵐ by the
    bits of the exponent. Arithmetic alone, which vectorises; libm's exp is a call.
    """
    x = max(x, _LOWEST)
    shifted = x * _LOG2_E + _MAGIC
    m = shifted - _MAGIC
    r = (x - m * _LN2_HIGH) - m * _LN2_LOW
    p = r * (1 / 479001600) + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r * r + r + 1.0
    return p * _float((_bits(shifted) + np.int64(1023)) << np.int64(52))


@_compiled
def _sums(logits, labels, beta, also_at_one):
    n, classes = logits.shape
    z = np.empty((classes, _LANES))
    work = np.zeros((7, _LANES))
    work[4] = 1.0
    result = np.zeros(7)
    for start in range(0, n, _LANES):
        rows = min(_LANES, n - start)
        _load(logits, start, rows, z, work)
        for k in range(classes):
            _add_class(z[k], beta, work[0], work[1], work[2], work[3], work[6])
        if also_at_one:
            work[4] = 0.0
            for k in range(classes):
                _add_class_at_one(z[k], work[4])
        for j in range(rows):
            work[5, j] = z[labels[start + j], j]
        _reduce(work, rows, beta, result)
    result[5] = work[6].min()
    return result


@_compiled
def _load(logits, start, rows, z, work):
    """z = l − max l of a few rows, classes first; lanes beyond the rows are all 0."""
    classes = len(z)
    z[:, rows:] = 0.0
    for j in range(rows):
        for k in range(classes):
            z[k, j] = logits[start + j, k]
    work[:4] = 0.0
    top = work[0]
    top[:] = z[0]
    for k in range(1, classes):
        _raise_to(top, z[k])
    for k in range(classes):
        _subtract(z[k], top)
    top[:] = 0.0


@_compiled
def _raise_to(top, row):
    for j in range(len(top)):
        top[j] = max(top[j], row[j])


@_compiled
def _subtract(row, top):
    for j in range(len(row)):
        row[j] -= top[j]


@_compiled
def _add_class(z, beta, total, first, second, third, lowest):
    """Σ e, Σ e z, Σ e z², Σ e z³ with e = exp(β z), and min z, for many rows at once."""
    for j in range(len(z)):
        x = z[j]
        e = exp_nonpositive(beta * x)
        total[j] += e
        e *= x
        first[j] += e
        e *= x
        second[j] += e
        third[j] += e * x
        lowest[j] = min(lowest[j], x)


@_compiled
def _add_class_at_one(z, total):
    for j in range(len(z)):
        total[j] += exp_nonpositive(z[j])


@_compiled
def _reduce(work, rows, beta, result):
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
