"""Whether VALID and TEST differ by more than chance, so that a calibrator may not carry over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant.distributions import holm, student_p
from calibrant.metrics import assign_blocks, top_label
from calibrant.metrics.metric import percents

if TYPE_CHECKING:
    from calibrant.claims import Claims
    from calibrant.predictions import Predictions

__all__ = ["describe_difference"]

_LEVEL = 0.01  # The risk that either of the two means seems to differ by chance.
_FEWEST = 20  # Fewer independent examples say little about how much they vary.
_BLOCKS = 1000


def describe_difference(valid: Predictions | Claims, test: Predictions | Claims) -> str | None:
    """Say in which of accuracy and mean confidence the data differ beyond chance; None if in none.

    Two means are compared by t = (a − b) / √(v_a + v_b). Each v is the variance around the mean of
    both data sets, over sentences or images where there are such groups. It is at least what the
    other data set leads to expect: twenty right predictions in a row do not vary at all.

    >>> from calibrant import Predictions
    >>> right, wrong = (Predictions.from_probabilities([0.9] * 90, [k] * 90) for k in (1, 0))
    >>> describe_difference(right, wrong)
    'VALID and TEST differ by more than chance in accuracy (100.0 % and 0.0 %); ...'
    >>> describe_difference(right, right)
    """
    sums = [_block_sums(data) for data in (valid, test)]
    if min(len(each[0]) for each in sums) < _FEWEST:
        return None
    names = ("accuracy", "mean confidence")
    values = holm([_p_value(*(each[[0, k, 3]] for each in sums)) for k in (1, 2)])
    found = []
    for k, (name, p) in enumerate(zip(names, values, strict=True), start=1):
        if p <= _LEVEL:
            mine, other = percents(*(float(each[k].sum() / each[0].sum()) for each in sums))
            found.append(f"{name} ({mine} and {other})")
    if not found:
        return None
    return (
        f"VALID and TEST differ by more than chance in {' and '.join(found)}; a calibrator that is "
        "fitted on VALID may not fit TEST."
    )


def _block_sums(data: Predictions | Claims) -> np.ndarray:
    """Return (4, blocks): the weight, right predictions, confidence and Σ w² of each block."""
    confidence, _, right = top_label(data)
    weights = np.ones(len(data)) if data.weights is None else data.weights
    block = assign_blocks(data, blocks=_BLOCKS)
    columns = (weights, weights * right, weights * confidence, weights**2)
    sums = np.stack([np.bincount(block, column, minlength=_BLOCKS) for column in columns])
    return np.asarray(sums[:, sums[0] > 0])


def _p_value(mine: np.ndarray, other: np.ndarray) -> float:
    """Return the p-value of "both means are the same"; rows are weights, sums and Σ w²."""
    difference = mine[1].sum() / mine[0].sum() - other[1].sum() / other[0].sum()
    if abs(difference) < 1e-12:
        return 1.0
    both = (mine, other)
    common = sum(each[1].sum() for each in both) / sum(each[0].sum() for each in both)
    spreads = [_spread(each, common) for each in both]
    squares = [each[2].sum() for each in both]
    expected = sum(spreads) / sum(squares)
    variance = sum(
        max(spread, expected * square) / each[0].sum() ** 2
        for spread, square, each in zip(spreads, squares, both, strict=True)
    )
    freedom = min(mine.shape[1], other.shape[1]) - 1
    return student_p(difference / math.sqrt(variance), freedom)


def _spread(sums: np.ndarray, mean: float) -> float:
    """Return Σ_b (s_b − mean · w_b)² · B / (B − 1) over B blocks, W² times the variance of s / w.

    Of independent rows it grows with Σ w².
    """
    weights, values, _ = sums
    blocks = len(weights)
    return float(((values - mean * weights) ** 2).sum() * blocks / (blocks - 1))
