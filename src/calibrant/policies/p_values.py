"""Tests of "the risk is above the target", and the procedure that makes many of them.

Independent items have an exact p-value, P[Binomial(n, target) ≤ wrong]. Groups have the inverse of
a bettor's wealth (Waudby-Smith & Ramdas 2024). Hypotheses in a fixed order share a level by the
fallback procedure (Wiens 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["betting_p_value", "binomial_tail", "loosest", "upper_bound"]

_BOLDEST = 0.99  # The share of the wealth that the worst group may cost.


def binomial_tail(wrong: int, n: int, risk: float) -> float:
    """Return P[Binomial(n, risk) ≤ wrong].

    >>> round(binomial_tail(1, 3, 0.5), 6)
    0.5
    """
    if wrong >= n:
        return 1.0
    log_choose = math.lgamma(n + 1) - math.lgamma(wrong + 1) - math.lgamma(n - wrong + 1)
    last = log_choose + wrong * math.log(risk) + (n - wrong) * math.log1p(-risk)
    k = np.arange(wrong, 0, -1)  # P(k − 1) / P(k) = k (1 − risk) / ((n − k + 1) risk)
    odds = math.log1p(-risk) - math.log(risk)
    terms = np.append(0.0, np.cumsum(np.log(k / (n - k + 1)) + odds))
    largest = terms.max()
    return min(1.0, float(np.exp(last + largest) * np.exp(terms - largest).sum()))


def betting_p_value(
    accepted: np.ndarray, wrong: np.ndarray, largest: int, risk: float, delta: float
) -> float:
    """Return a p-value of "the risk is above ``risk``" from counts of independent groups.

    λ_g = sqrt(2 log(1/δ) / (G · V_g)), at most 0.99 / ((1 − risk) · largest), where V_g is the mean
    of Z² of the groups before g and of one that has risk (1 − risk).

    >>> ones, none = np.ones(100, int), np.zeros(100, int)
    >>> round(betting_p_value(ones, none, 1, 0.05, 0.1), 4)  # The exact one is 0.95¹⁰⁰ = 0.0059.
    0.0062
    """
    z = wrong - risk * accepted
    past = np.concatenate([[0.0], np.cumsum(z * z)[:-1]])
    variance = (risk * (1 - risk) + past) / np.arange(1, len(z) + 1)
    wager = np.sqrt(2 * math.log(1 / delta) / (len(z) * variance))
    wager = np.minimum(wager, _BOLDEST / ((1 - risk) * largest))
    return float(min(1.0, np.exp(-np.log1p(-wager * z).sum())))


def upper_bound(p_value: Callable[[float], float], delta: float) -> float:
    """Return the least risk that ``p_value`` rejects at ``delta``, by bisection to 1e-12."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if p_value(middle) < delta:
            high = middle
        else:
            low = middle
    return high


def loosest(
    p_value: Callable[[int], float], weights: Mapping[int, float], count: int, delta: float
) -> int | None:
    """Return the last of ``count`` hypotheses that the fallback procedure rejects.

    ``weights`` has the share of ``delta`` that each start brings.

    >>> loosest([0.01, 0.04, 0.09, 0.0].__getitem__, {0: 0.5, 2: 0.5}, 4, 0.1)
    3
    >>> loosest([0.06, 0.04, 0.09, 0.0].__getitem__, {0: 0.5, 2: 0.5}, 4, 0.1) is None
    True
    """
    level, best = 0.0, None
    for index in range(count):
        level += delta * weights.get(index, 0.0)
        if level:
            if p_value(index) <= level:
                best = index
            else:
                level = 0.0
    return best
