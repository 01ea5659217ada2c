"""Methods ranked over corpora: average ranks, Friedman's test and Nemenyi's critical difference.

J. Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets*, JMLR 7 (2006).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calibrant.distributions import fisher_p, range_quantile
from calibrant.errors import InputError

__all__ = ["Ranking", "rank_methods", "ranks_of"]


class Ranking(NamedTuple):
    """Average ranks (1: best), the p of "all the same", and the distance that tells two apart."""

    average: tuple[float, ...]
    p: float
    critical_difference: float


def ranks_of(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 for the smallest; equal values share the mean of their places.

    >>> ranks_of(np.array([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    values = np.asarray(values, dtype=float)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2)


def rank_methods(costs: np.ndarray) -> Ranking:
    """Rank ``costs[corpus, method]``, less is better.

    The p is that of Iman & Davenport's (1980) F, (N − 1) χ² / (N (k − 1) − χ²), which is less
    conservative than Friedman's χ²; the critical difference q₀.₀₅(k) √(k (k + 1) / (6 N)).

    >>> rank_methods(np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.1, 0.4, 0.3]])).average
    (1.0, 2.3333333333333335, 2.6666666666666665)
    """
    n, k = costs.shape
    if n < 2 or k < 2:
        raise InputError(f"Ranks need at least 2 corpora and 2 methods, got {n} and {k}.")
    ranks = np.array([ranks_of(row) for row in costs])
    average = ranks.mean(axis=0)
    difference = range_quantile(k) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranking(tuple(map(float, average)), _iman_davenport(ranks), difference)


def _iman_davenport(ranks: np.ndarray) -> float:
    """p of the F, with χ² = (k − 1) Σⱼ (Σᵢ cᵢⱼ)² / Σᵢⱼ cᵢⱼ² of centred ranks c, ties and all."""
    n, k = ranks.shape
    centred = ranks - (k + 1) / 2
    spread = float((centred**2).sum())
    if spread == 0:  # Every corpus is one tie.
        return 1.0
    square = (k - 1) * float((centred.sum(axis=0) ** 2).sum()) / spread
    left = n * (k - 1) - square
    if left <= 1e-9:  # Every corpus ranks them alike.
        return 0.0
    return fisher_p((n - 1) * square / left, k - 1, (k - 1) * (n - 1))
