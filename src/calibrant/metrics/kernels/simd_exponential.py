"""The exponential of sixteen floats side by side (:mod:`calibrant.metrics.kernels.simd_vector`).

After a change here, save ``tops.py`` too.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from functools import partial

import numpy as np

from calibrant.metrics.kernels.rows import compiled
from calibrant.metrics.kernels.simd_vector import larger, power_of_two, same

__all__ = ["DEEP", "exponential_in_lanes"]

DEEP = np.float32(87)  # e^−87 is the smallest power that float32 holds with all digits.
_LOG2_E = np.float32(1.4426950408889634)
_ROUND = np.float32(1.5 * 2**23 + 127)  # Adding this leaves k + 127 in the lowest bits.
_ONE = np.float32(1)
_LEAST_EXPONENT = np.float32(-126)
# 2^f ≈ 1 + f · Σ_i c_i f^i with the least maximum of the relative error: 9e−8 for abs(f) ≤ 1/2.
_C0, _C1, _C2, _C3, _C4 = (
    np.float32(c) for c in (0.693147, 0.24022242, 0.055507336, 0.009671513, 0.0013264727)
)


@partial(compiled, mathematics={"contract", "nsz"})
def exponential_in_lanes(x, deep):
    """Return e^x for x ≤ 0, within 2e−7 of it; e^0 is exactly 1. Without ``deep``, for x > −87.

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
