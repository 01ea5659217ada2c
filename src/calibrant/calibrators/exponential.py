"""exp for numba, written so that LLVM turns it into vector instructions (libm's is a call)."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["exp_nonpositive"]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # Low bits zero: a whole number times it is exact.
_LN2_LOW = 1.9082149292705877e-10
_MAGIC = 6755399441055744.0  # 1.5 · 2⁵²: adding it rounds to a whole number, in the low bits.
_LOWEST = -708.0  # exp of it is still a normal number.


def _bits_of(typing_context: Any, value: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The bits of a float64 as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _float_of(typing_context: Any, value: Any) -> Any:  # noqa: ARG001
    """The float64 of which an int64 holds the bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


_bits: Any = intrinsic(_bits_of)
_float: Any = intrinsic(_float_of)


@numba.njit(inline="always", fastmath={"contract", "nnan", "nsz"})
def exp_nonpositive(x):  # type: ignore[no-untyped-def]
    """exp(x) for x ≤ 0, to 2 units in the last place; exp(−708) for what is less.

    x = m ln 2 + r with |r| ≤ ½ ln 2; exp(r) by its Taylor series to r¹² (error 2e-16), 2ᵐ by the
    bits of the exponent.
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
