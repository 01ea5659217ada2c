"""Which of several columns of runs is the best, and which cannot be told from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.study.paired import holm, t_p

__all__ = ["LEVEL", "best_alike", "paired_values"]

LEVEL = 0.05  # A corrected p below it counts as a difference.

Values = Mapping[Any, float]  # By what pairs a run with one of another method


def best_alike(columns: Sequence[Values], sign: int) -> list[bool]:
    """Which have the best mean, or do not differ from the one that has.

    Each is compared with the best by the paired t-test over the runs that both have (the keys that
    they share), with Holm's correction; what shares fewer than two runs with the best cannot be
    tested and is only marked where its mean is as good. What has one run is no best where others
    have more: it would hide them all, untested. ``sign`` is 1 where more is better.

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


def _p(ones: Values, others: Values, itself: bool) -> float:
    if itself:
        return math.nan
    a, b, _ = paired_values(ones, others)
    return t_p([x - y for x, y in zip(a, b, strict=True)]) if a else math.nan


def paired_values(ones: Values, others: Values) -> tuple[list[float], list[float], list[Any]]:
    """The values of the keys that both have, and these keys.

    >>> paired_values({"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 4.0})
    ([2.0], [3.0], ['b'])
    """
    shared = [key for key in ones if key in others]
    return [ones[key] for key in shared], [others[key] for key in shared], shared
