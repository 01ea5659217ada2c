"""The distributions that tests over few seeds or groups need, in plain arithmetic: t, F, range.

SciPy has them all; a report needs no more than these three, so NumPy suffices. The tests compare
each with SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from calibrant.errors import InputError

__all__ = [
    "fisher_p",
    "holm",
    "incomplete_beta",
    "range_quantile",
    "student_p",
    "student_quantile",
]

_TINY = 1e-300
_MOST_TERMS = 10_000
# Halvings of a bracket: enough to reach the last bit of a float64.
_HALVINGS = 200


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised I_x(a, b) by its continued fraction (Abramowitz & Stegun, 26.5.8).

    >>> round(incomplete_beta(2.0, 3.0, 0.5), 4)
    0.6875
    """
    if not 0 <= x <= 1:
        raise InputError(f"incomplete_beta expects x in [0, 1], got {x}.")
    if x in (0, 1):
        return float(x)
    if x > (a + 1) / (a + b + 2):  # On the other side the fraction converges faster.
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    return front / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction (Lentz 1976)."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 / _away_from_zero(1 + numerator * d)
            c = _away_from_zero(1 + numerator / c)
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def student_p(t: float, freedom: float) -> float:
    """Return P(abs(T) ≥ abs(t)) of Student's t: both tails.

    >>> round(student_p(2.776, 4), 4)
    0.05
    """
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@cache
def student_quantile(freedom: float, level: float = 0.95) -> float:
    """Return the t with P(abs(T) ≤ t) = ``level``.

    >>> round(student_quantile(4), 3)
    2.776
    """
    return _crossing(lambda t: 1 - student_p(t, freedom), level)


def fisher_p(f: float, above: int, below: int) -> float:
    """Return P(F ≥ f) with ``above`` and ``below`` degrees of freedom.

    >>> round(fisher_p(3.48, 4, 10), 3)
    0.05
    """
    return 1.0 if f <= 0 else incomplete_beta(below / 2, above / 2, below / (below + above * f))


@cache
def range_quantile(count: int, level: float = 0.95) -> float:
    """Return the quantile of the range of ``count`` normals (studentized, infinite freedom).

    P(R ≤ r) = k ∫ φ(z) [Φ(z) − Φ(z − r)]^(k − 1) dz (Tukey 1949).

    >>> round(range_quantile(5) / 2**0.5, 3)
    2.728
    """
    if count < 2:
        raise InputError(f"A range is that of at least 2 values, got {count}.")
    z = np.linspace(-9, 9, 2001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = _normal(z)

    def chance(r: float) -> float:
        inside = (below - _normal(z - r)) ** (count - 1)
        return float(count * np.sum(density * inside) * (z[1] - z[0]))

    return _crossing(chance, level)


def _normal(z: np.ndarray) -> np.ndarray:
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in z])


def _crossing(rising: Callable[[float], float], level: float) -> float:
    """Return where a function that rises from 0 to 1 takes the value ``level``, by bisection."""
    if not 0 < level < 1:
        raise InputError(f"A level is between 0 and 1, got {level}.")
    low, high = 0.0, 1.0
    while rising(high) < level:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm 1979); NaN stays and does not count.

    p₍ᵢ₎ becomes max over j ≤ i of min(1, (m − j + 1) p₍ⱼ₎).

    >>> [round(q, 10) for q in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i in range(len(p)) if not math.isnan(p[i])), key=lambda i: p[i])
    corrected, least = [math.nan] * len(p), 0.0
    for place, i in enumerate(order):
        least = max(least, min(1.0, (len(order) - place) * p[i]))
        corrected[i] = least
    return corrected
