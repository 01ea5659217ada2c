"""Is one method better than another, run by run? Paired tests, and Holm's correction of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from calibrant.distributions import holm, student_p
from calibrant.study.estimate import Estimate, estimate

__all__ = ["Comparison", "compare_pairs", "holm", "sign_flip_p", "smallest_p", "t_p"]

# Up to so many pairs all 2ⁿ signs are tried; above, as many random ones.
_MOST_EXACT = 16
_SEED = 0
_ROUNDING = 1e-9  # Of a difference: a spread below it is that of arithmetic.


class Comparison(NamedTuple):
    """The difference of paired values and how surprising it would be if there were none."""

    difference: Estimate
    effect: float  # Cohen's d of paired data: mean difference / its standard deviation
    t: float  # p of the paired t-test, both sides; NaN for one pair
    flips: float  # p of the sign-flip permutation test


def compare_pairs(ones: Sequence[float], others: Sequence[float]) -> Comparison:
    """Compare values that belong together in pairs; ``ones`` minus ``others``.

    >>> compare_pairs([3.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    Comparison(difference=Estimate(mean=2.33..., half=1.43..., n=3), effect=4.04..., t=0.0198...,
    flips=0.25)
    """
    differences = [one - other for one, other in zip(ones, others, strict=True)]
    found = estimate(differences)
    spread = float(np.std(differences, ddof=1)) if found.n > 1 else math.nan
    effect = found.mean / spread if spread > _ROUNDING * abs(found.mean) else math.nan
    return Comparison(found, effect, t_p(differences), sign_flip_p(differences))


def t_p(differences: Sequence[float]) -> float:
    """p of the paired t-test (Student 1908), both sides; NaN where a difference is none.

    Where all differences are the same there is no spread to judge by. That is no certainty: on a
    test split of few examples two seeds agree by chance. The sign-flip test takes its place.

    >>> round(t_p([2.0, 2.0, 3.0]), 4), t_p([2.0, 2.0, 2.0])
    (0.0198, 0.25)
    """
    n, mean = len(differences), float(np.mean(differences))
    if n < 2 or not math.isfinite(mean):
        return math.nan
    spread = float(np.std(differences, ddof=1))
    if spread <= _ROUNDING * abs(mean):
        return sign_flip_p(differences)
    return student_p(mean * math.sqrt(n) / spread, n - 1)


def sign_flip_p(differences: Sequence[float]) -> float:
    """p of Fisher's (1935) permutation test: how often a random choice of signs does as much.

    Exact over all 2ⁿ signs for n ≤ 16 pairs; above, 2¹⁶ random ones of a fixed seed, among which
    the observed one counts. It assumes no more than that, without a difference, either of a pair
    is as likely to be the larger.

    >>> sign_flip_p([2.0, 2.0, 3.0])
    0.25
    """
    found = np.asarray(differences, dtype=float)
    if not len(found) or not np.isfinite(found).all():
        return math.nan
    sums = np.abs(_signs(len(found)) @ found)
    # Sums that differ by rounding alone are equal.
    as_much = np.count_nonzero(sums >= abs(found.sum()) - 1e-12 * np.abs(found).sum())
    return float(as_much) / len(sums)


def smallest_p(pairs: int) -> float:
    """The least that a sign-flip test of so many pairs can give: 2 / 2ⁿ.

    >>> smallest_p(5)
    0.0625
    """
    return float(max(2.0 / 2**pairs, 2.0**-_MOST_EXACT))


@cache
def _signs(n: int) -> np.ndarray:
    """One choice of n signs per row, the first of them all +1."""
    if n <= _MOST_EXACT:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    else:
        bits = np.random.default_rng(_SEED).integers(0, 2, (2**_MOST_EXACT, n))
        bits[0] = 0
    return np.asarray(1.0 - 2.0 * bits)
