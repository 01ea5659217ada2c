"""Statistics of runs: estimates over seeds, paired tests, and the best of several columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from calibrant.charts.numbers import show
from calibrant.charts.numbers import signed as signed_number
from calibrant.distributions import holm, student_p, student_quantile
from calibrant.errors import InputError

__all__ = [
    "LEVEL",
    "Estimate",
    "PairedComparison",
    "best_alike",
    "compare_pairs",
    "estimate",
    "holm",
    "numbered",
    "paired_values",
    "sign_flip_p",
    "smallest_p",
    "t_p",
]

# All 2ⁿ signs are tried up to this many pairs; above, 2¹⁶ random ones.
_MOST_EXACT = 16
_SEED = 0
_ROUNDING = 1e-9  # Relative: a smaller spread of differences comes from arithmetic.
LEVEL = 0.05  # A corrected p below it counts as a difference.
PairedValues = Mapping[Any, float]  # Key that pairs a run with one of another method → its value


class Estimate(NamedTuple):
    """The mean of ``n`` values and half of its 95 % interval; NaN for a single value."""

    mean: float
    half: float
    n: int

    def show(self, digits: int, *, signed: bool = False) -> str:
        """Format the mean ± half of the interval.

        >>> Estimate(0.8213, 0.0124, 3).show(3), Estimate(-0.5, math.nan, 1).show(1, signed=True)
        ('0.821 ± 0.012', '−0.5')
        """
        mean = signed_number(self.mean, digits) if signed else show(self.mean, digits)
        return mean if math.isnan(self.half) else f"{mean} ± {show(self.half, digits)}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and t₀.₉₇₅(n − 1) s / √n (Student 1908); no interval with NaN or infinity.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.484..., n=3)
    """
    n = len(values)
    if not n:
        raise InputError("An estimate needs at least one value, got none.")
    mean = float(np.mean(values))
    if n == 1 or not math.isfinite(mean):
        return Estimate(mean, math.nan, n)
    return Estimate(mean, student_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n), n)


class PairedComparison(NamedTuple):
    """The difference of paired values, and its tests."""

    difference: Estimate
    effect: float  # Cohen's d of paired data: mean difference / its standard deviation
    t: float  # p of the paired t-test, both sides; NaN for one pair
    flips: float  # p of the sign-flip permutation test


def compare_pairs(ones: Sequence[float], others: Sequence[float]) -> PairedComparison:
    """Compare paired values: ``ones`` minus ``others``.

    >>> compare_pairs([3.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    PairedComparison(difference=Estimate(mean=2.33..., half=1.43..., n=3), effect=4.04...,
    t=0.0198..., flips=0.25)
    """
    differences = [one - other for one, other in zip(ones, others, strict=True)]
    found = estimate(differences)
    spread = float(np.std(differences, ddof=1)) if found.n > 1 else math.nan
    effect = found.mean / spread if spread > _ROUNDING * abs(found.mean) else math.nan
    return PairedComparison(found, effect, t_p(differences), sign_flip_p(differences))


def t_p(differences: Sequence[float]) -> float:
    """Return p of the two-sided paired t-test (Student 1908); NaN if a difference is not a number.

    Equal differences leave no spread to test with. This does not make them certain: on a small test
    split two seeds can agree by chance. The sign-flip test is used instead.

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
    """Return p of Fisher's (1935) permutation test: how often random signs reach the observed sum.

    Exact over all 2ⁿ signs for n ≤ 16 pairs; above, 2¹⁶ random ones of a fixed seed, among which
    the observed one counts. The only assumption: without a difference, either of a pair is equally
    likely to be the larger.

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
    """Return the smallest p that a sign-flip test of this many pairs can give: 2 / 2ⁿ.

    >>> smallest_p(5)
    0.0625
    """
    return float(max(2.0 / 2**pairs, 2.0**-_MOST_EXACT))


@cache
def _signs(n: int) -> np.ndarray:
    """Return one choice of n signs per row; the first row is all +1."""
    if n <= _MOST_EXACT:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    else:
        bits = np.random.default_rng(_SEED).integers(0, 2, (2**_MOST_EXACT, n))
        bits[0] = 0
    return np.asarray(1.0 - 2.0 * bits)


def best_alike(columns: Sequence[PairedValues], sign: int) -> list[bool]:
    """Mark the columns with the best mean, or not significantly different from it.

    Each column is compared with the best by the paired t-test over the keys that both have, with
    Holm's correction. A column that shares fewer than two runs with the best cannot be tested; it
    is marked only if its mean is as good. A single run is never the best next to columns with more,
    because it would hide them untested. ``sign`` is 1 if more is better.

    >>> near, far = {0: 1.1, 1: 1.0, 2: 1.2}, {0: 5.0, 1: 5.2, 2: 5.1}
    >>> best_alike([{0: 1.0, 1: 1.1, 2: 1.2}, near, far], sign=-1)
    [True, True, False]
    """
    means = [sign * float(np.mean(list(column.values()))) for column in columns]
    least = min(2, max((len(c) for c, m in zip(columns, means, strict=True) if m == m), default=0))
    means = [
        mean if len(column) >= least else math.nan
        for mean, column in zip(means, columns, strict=True)
    ]
    known = [mean for mean in means if not math.isnan(mean)]
    if not sign or not known:
        return [False] * len(columns)
    best = means.index(max(known))
    p = holm([_p(column, columns[best], column is columns[best]) for column in columns])
    return [
        mean == means[best] or (not math.isnan(q) and q >= LEVEL)
        for mean, q in zip(means, p, strict=True)
    ]


def numbered(columns: Iterable[PairedValues]) -> int:
    """Return how many columns have a number in every run: the best of one is no best.

    >>> numbered([{0: 1.0, 1: 2.0}, {0: 1.0, 1: math.nan}, {}])
    1
    """
    return sum(bool(c) and not any(map(math.isnan, c.values())) for c in columns)


def _p(ones: PairedValues, others: PairedValues, itself: bool) -> float:
    if itself:
        return math.nan
    a, b, _ = paired_values(ones, others)
    return t_p([x - y for x, y in zip(a, b, strict=True)]) if a else math.nan


def paired_values(
    ones: PairedValues, others: PairedValues
) -> tuple[list[float], list[float], list[Any]]:
    """Return the values of the keys that both have, and these keys.

    >>> paired_values({"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 4.0})
    ([2.0], [3.0], ['b'])
    """
    shared = [key for key in ones if key in others]
    return [ones[key] for key in shared], [others[key] for key in shared], shared
