"""Calibration errors with bins of equal mass: equal numbers of examples, up to ties."""

from __future__ import annotations

import numpy as np

from calibrant.arguments import check_whole, takes_arrays
from calibrant.arrays import Array, to_numpy
from calibrant.errors import InputError
from calibrant.metrics.confidences import Confidences
from calibrant.metrics.sorted_confidences import ConfidenceSteps, StepSource, confidence_steps
from calibrant.predictions import Predictions

__all__ = ["adaptive_classwise_ece", "adaptive_ece", "equal_mass_bin"]

_CHUNK = 1 << 18  # Scores per chunk, so that extra memory is little more than one column.


@takes_arrays
def adaptive_ece(source: StepSource, bins: int = 15) -> float:
    """Adaptive ECE: Σ_b (n_b / n) · abs(acc_b − conf_b), bins of equal mass on the confidence.

    Nguyen & O'Connor 2015; "AECE" in Mukhoti et al. 2020. Wide bins where there are few examples
    and narrow ones where there are many: equal-width bins put a modern network's examples nearly
    all into the last. For how ties are binned see :func:`equal_mass_bin`.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 0, 0])
    >>> round(adaptive_ece(p, bins=3), 3)
    0.3
    """
    return _gap_of_steps(confidence_steps(source), bins)


@takes_arrays
def adaptive_classwise_ece(predictions: Predictions, bins: int = 15) -> float:
    """Mean over the K columns of the one-against-rest adaptive ECE of p_k; absent classes count.

    The "adaptive calibration error" (ACE) of Nixon et al. 2019; they weigh bins alike, which is
    the same where no tie makes the masses differ. It needs every probability, not only the top
    one, so it takes predictions held in memory and works on one column at a time.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> round(adaptive_classwise_ece(p, bins=2), 3)
    0.4
    """
    if not isinstance(predictions, Predictions):
        raise InputError(
            "adaptive_classwise_ece needs Predictions, because all K columns count; "
            f"got {type(predictions).__name__}."
        )
    if not len(predictions):
        return float("nan")
    labels, softened = to_numpy(predictions.labels), _softmax_parts(predictions)
    total = 0.0
    for k in range(predictions.classes):
        column = to_numpy(predictions.scores[:, k]).astype(np.float64)
        if softened is not None:
            top, sums = softened
            with np.errstate(over="ignore"):  # A class ruled out by the lowest float: exp gives 0.
                column -= top
            np.exp(column, out=column)
            column /= sums
        each = Confidences(column, labels == k, weights=predictions.weights)
        total += adaptive_ece(each, bins)
    return total / predictions.classes


def equal_mass_bin(count: np.ndarray, bins: int) -> np.ndarray:
    """Return the bin of each step, where the middle of its ranks falls: floor(B · mid / n).

    A step of c examples after s smaller ones covers the ranks s..s + c, with the middle s + c / 2.
    Without ties this is the usual cut into B runs whose lengths differ by at most one. A tie stays
    whole in one bin, in any order of the examples, so bins may differ in mass, or be empty.

    >>> equal_mass_bin(np.array([1, 1, 1, 1]), 2)
    array([0, 0, 1, 1])
    >>> equal_mass_bin(np.array([1, 4, 1]), 3)
    array([0, 1, 2])
    """
    check_whole("equal_mass_bin", "a whole number of bins ≥ 1", bins)
    if count.dtype.kind == "f":  # Sums of weights; the slack is for their rounding.
        share = (np.cumsum(count) - count / 2) / count.sum()
        return np.asarray(np.minimum(int(bins) * share + 1e-9, int(bins) - 1), np.int64)
    middle = np.cumsum(count, dtype=np.int64)  # Whole numbers, so the cut is exact.
    middle *= 2
    middle -= count
    middle *= int(bins)
    middle //= 2 * int(count.sum())
    return middle


def _gap_of_steps(s: ConfidenceSteps, bins: int) -> float:
    if not s.n:
        return float("nan")
    where = equal_mass_bin(s.count, bins)
    gap = np.bincount(where, s.correct - s.count * s.confidence, minlength=bins)
    return float(np.abs(gap).sum() / s.n)


def _softmax_parts(predictions: Predictions) -> tuple[np.ndarray, np.ndarray] | None:
    """Return max_j l_j and Σ_j exp(l_j − max) of each row, or None for probabilities."""
    if predictions.kind == "probabilities":
        return None
    rows = max(1, _CHUNK // predictions.classes)
    parts = [_top_and_sum(p.scores) for p in predictions.chunks(rows)]
    top, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    return top, sums


def _top_and_sum(logits: Array) -> tuple[np.ndarray, np.ndarray]:
    wide = to_numpy(logits).astype(np.float64)
    top = wide.max(axis=1)
    with np.errstate(over="ignore"):
        return top, np.exp(wide - top[:, None]).sum(axis=1)
