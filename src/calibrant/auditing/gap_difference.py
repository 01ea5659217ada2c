"""Test whether two parts of the examples have the same gap, confidence − accuracy.

The gaps d of both parts are as uncertain as their claims, after taking away the gap of all: part k
with n examples, a mean claim of c and the design effect D has the variance D c (1 − c) / n. The
difference has the sum of both variances. Where parts share groups (sentences with words of both),
the spread of the differences over groups is known, and counts instead where it is larger than that
of independent examples.

The part with the larger variance is tested as any claims, lowered by the gap of the other. Its
number of examples is c (1 − c) over the variance of the difference, so that the certain part of two
adds nothing, and two parts of one kind have n m / (n + m) examples. Groups count by their part of
that variance (Satterthwaite 1946).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.auditing.evidence import ClaimSums, p_values
from calibrant.metrics.blocks import effective_number

__all__ = ["difference_p_value"]

_CERTAIN = 1e-12  # No claim is exactly 0 or 1, as in the test of claims.


def difference_p_value(parts: Sequence[np.ndarray]) -> float:
    """Return the p-value of "both parts have the same gap"; 1 where a part is empty.

    Each part is (3, groups): number, sum of confidence, number right. One group means that
    all examples are independent.

    >>> sure, unsure = np.array([[1000], [990.0], [990]]), np.array([[100], [60.0], [54]])
    >>> round(difference_p_value([sure, unsure]), 2)  # 54 of 100 instead of 60
    0.31
    """
    totals = np.stack([part.sum(axis=1) for part in parts])
    if not totals[:, 0].all():
        return 1.0
    gaps = (totals[:, 1] - totals[:, 2]) / totals[:, 0]
    common = float((totals[:, 1] - totals[:, 2]).sum() / totals[:, 0].sum())
    share = np.clip(totals[:, 1] / totals[:, 0] - common, _CERTAIN, 1 - _CERTAIN)
    single = share * (1 - share)  # The variance of one example.
    variances, groups = single / totals[:, 0], None
    variance = float(variances.sum())
    if parts[0].shape[1] > 1:
        variances = variances * np.array(
            [_design(p, common, v) for p, v in zip(parts, single, strict=True)]
        )
        variance = max(variance, _over_groups(parts, common))
        groups = _effective_groups(parts, variances)
    least = int(variances.argmax())
    size = single[least] / variance
    claimed = np.clip(totals[least, 1] / totals[least, 0] - gaps[1 - least], 0, 1)
    right = totals[least, 2] / totals[least, 0]
    sums = [np.array([value]) for value in (size, size * claimed, size * right)]
    known = () if groups is None else (np.ones(1), np.array([groups]))
    return float(p_values(ClaimSums(*sums, *known))[0])


def _off(part: np.ndarray, common: float) -> np.ndarray:
    """Return by how much each group is off, less what all examples are off."""
    return np.asarray(part[1] - part[2] - common * part[0])


def _design(part: np.ndarray, common: float, single: float) -> float:
    """Return the variance over groups in units of that of independent examples, at least 1."""
    return max(1.0, float(np.square(_off(part, common)).sum() / (single * part[0].sum())))


def _over_groups(parts: Sequence[np.ndarray], common: float) -> float:
    """Return the variance of the difference of both gaps, from what each group adds to it."""
    first, second = (_off(part, common) / part[0].sum() for part in parts)
    return float(np.square(first - second).sum())


def _effective_groups(parts: Sequence[np.ndarray], variances: np.ndarray) -> float:
    """Return the number of groups with equal parts of the variance of the difference."""
    sizes = [part[0] ** 1.5 for part in parts]
    each = sum(v * s / s.sum() for v, s in zip(variances, sizes, strict=True))
    return float(effective_number(np.asarray(each) ** (2 / 3)))
