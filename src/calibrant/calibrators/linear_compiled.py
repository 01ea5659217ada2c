"""One pass of :mod:`calibrant.calibrators.linear` in float32, compiled by numba (extra ``fast``).

Each row is read once: its logits, the softmax, the NLL and the gradient are computed while it is in
the cache. Loops run along the classes, the form that LLVM vectorises, so it pays with 32 and more.
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

__all__ = ["exp_nonpositive", "log_softmax_rows", "residual_rows", "spread_rows", "vector_rows"]

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)  # Low bits zero: a whole number times it is exact.
_LN2_LOW = np.float32(-2.12194440e-4)
_MAGIC = np.float32(12582912.0)  # 1.5 · 2²³: adding it leaves the nearest whole number.
_LOWEST = np.float32(-87.0)  # exp of it is still a normal number.
_ONE = np.float32(1.0)
_TAYLOR = tuple(np.float32(c) for c in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5))
_BLOCK = 128  # Rows whose slopes are added in float32, before float64 takes over.

_njit: Any = numba.njit
_intrinsic: Any = extending.intrinsic


def _compiled(function: Callable[..., Any], *extra: str) -> Any:
    """Compile at the first call, without the GIL; keep the machine code on disk where allowed.

    Scores are finite, so there is no NaN, and the sign of zero does not matter.
    """
    options = {"nogil": True, "fastmath": {"contract", "nnan", "nsz", *extra}}
    try:
        return _njit(cache=True, **options)(function)
    except RuntimeError:  # Neither the package's folder nor the user's cache can be written.
        return _njit(**options)(function)


def _added_in_any_order(function: Callable[..., Any]) -> Any:
    """Compile a sum; not the exponential, whose steps only work in the order written."""
    return _compiled(function, "reassoc")


@_intrinsic
def _bits(_: Any, value: Any) -> Any:
    """Return the bits of a float32 as int32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(value), generate


@_intrinsic
def _scale(_: Any, bits: Any) -> Any:
    """Return 2ᵐ of the int32 whose low bits hold m."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        exponent = builder.add(arguments[0], ir.Constant(ir.IntType(32), 127))
        shifted = builder.shl(exponent, ir.Constant(ir.IntType(32), 23))
        return builder.bitcast(shifted, ir.FloatType())

    return types.float32(bits), generate


@_compiled
def exp_nonpositive(x):
    """Return exp(x) for a float32 x ≤ 0, to 2 units in the last place; exp(−87) for lower x.

    x = m ln 2 + r with |r| ≤ ½ ln 2; exp(r) by its Taylor series to r⁷, 2ᵐ by the exponent's bits.
    """
    x = max(x, _LOWEST)
    shifted = x * _LOG2_E + _MAGIC
    m = shifted - _MAGIC
    r = (x - m * _LN2_HIGH) - m * _LN2_LOW
    p = r * _TAYLOR[0] + _TAYLOR[1]
    p = p * r + _TAYLOR[2]
    p = p * r + _TAYLOR[3]
    p = p * r + _TAYLOR[4]
    p = p * r + _TAYLOR[5]
    p = p * r * r + r + _ONE
    return p * _scale(_bits(shifted))


@_compiled
def vector_rows(x, labels, weights, intercepts):
    """Return Σ NLL of softmax(w x + b), and Σ (p − y) x and Σ (p − y), in one row of 2 K + 1."""
    n, classes = x.shape
    result = np.zeros(2 * classes + 1)
    slope = np.zeros((2, classes), np.float32)
    e = np.empty(classes, np.float32)
    for i in range(n):
        row, y = x[i], labels[i]
        top = _logits(row, weights, intercepts, e)
        chosen = e[y]
        total = _exponentials(e, top)
        result[2 * classes] += np.log(total) + (top - chosen)
        _add_slopes(e, _ONE / total, row, slope[0], slope[1])
        slope[0, y] -= row[y]
        slope[1, y] -= _ONE
        if i % _BLOCK == _BLOCK - 1 or i == n - 1:
            _add(slope[0], result[:classes])
            _add(slope[1], result[classes:])
    return result


@_compiled
def spread_rows(x, weights, intercepts):
    """Return Σ s, Σ s x and Σ s x² with s = p (1 − p), p = softmax(w x + b), as three rows."""
    n, classes = x.shape
    result = np.zeros((3, classes))
    part = np.zeros((3, classes), np.float32)
    e = np.empty(classes, np.float32)
    for i in range(n):
        top = _logits(x[i], weights, intercepts, e)
        _add_spread(e, _ONE / _exponentials(e, top), x[i], part[0], part[1], part[2])
        if i % _BLOCK == _BLOCK - 1 or i == n - 1:
            for j in range(3):
                _add(part[j], result[j])
    return result


@_compiled
def residual_rows(logits, labels):
    """Return Σ NLL; softmax − onehot(y) takes the place of the logits."""
    loss = 0.0
    for i in range(len(logits)):
        row, y = logits[i], labels[i]
        top, chosen = _top(row), row[y]
        total = _exponentials(row, top)
        loss += np.log(total) + (top - chosen)
        _scaled(row, _ONE / total)
        row[y] -= _ONE
    return loss


@_compiled
def log_softmax_rows(logits, beta, out):
    """Write log softmax(β l) to ``out``."""
    e = np.empty(logits.shape[1], np.float32)
    for i in range(len(logits)):
        row, to = logits[i], out[i]
        for k in range(len(row)):
            to[k] = beta * row[k]
        e[:] = to
        top = _top(e)
        shift = top + np.log(_exponentials(e, top))
        for k in range(len(to)):
            to[k] -= shift


@_compiled
def _logits(x, weights, intercepts, out):
    for k in range(len(x)):
        out[k] = x[k] * weights[k] + intercepts[k]
    return _top(out)


@_compiled
def _top(row):
    top = row[0]
    for k in range(1, len(row)):
        top = max(top, row[k])
    return top


@_compiled
def _exponentials(row, top):
    """Replace l by exp(l − top); return their sum."""
    for k in range(len(row)):
        row[k] = exp_nonpositive(row[k] - top)
    return _sum(row)


@_added_in_any_order
def _sum(row):
    total = np.float32(0.0)
    for k in range(len(row)):
        total += row[k]
    return total


@_compiled
def _scaled(row, factor):
    for k in range(len(row)):
        row[k] *= factor


@_compiled
def _add_slopes(e, inverse, x, w_slope, b_slope):
    for k in range(len(x)):
        p = e[k] * inverse
        w_slope[k] += p * x[k]
        b_slope[k] += p


@_compiled
def _add_spread(e, inverse, x, total, first, second):
    for k in range(len(x)):
        p = e[k] * inverse
        s = p * (_ONE - p)
        total[k] += s
        s *= x[k]
        first[k] += s
        second[k] += s * x[k]


@_compiled
def _add(part, whole):
    for k in range(len(part)):
        whole[k] += part[k]
        part[k] = 0
