"""Data and criterion of a fit: scores of the kind a calibrator takes, and the validation NLL."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from calibrant.calibrators.backend import FLOOR, log_probabilities, log_softmax, softmax, unmasked
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.predictions import Kind, Predictions

__all__ = [
    "as_kind",
    "example_nll",
    "fitted_floor",
    "floor_of",
    "grid_digits",
    "lowered_floor",
    "mean_nll",
    "probability_floor",
    "smallest_positive",
    "without_masks",
    "zero_label_count",
]

_CHUNK = 1 << 17
_FLOOR_SCORES = 1 << 21  # Scores, at most, of the sample on which the floor is chosen.
_MOST_DIGITS = {np.dtype(np.float64): 6, np.dtype(np.float32): 4}


def mean_nll(predictions: Predictions, floor: float = FLOOR) -> float:
    """Return the mean of :func:`example_nll`, the NLL that fits and comparisons print.

    >>> mean_nll(Predictions.from_probabilities([[0.5, 0.5]], [0]))
    0.6931471805599453
    """
    total = 0.0
    for part in predictions.chunks(max(1, _CHUNK // predictions.classes)):
        each = example_nll(part, floor)
        total += float((each if part.weights is None else each * part.weights).sum())
    return total / predictions.size


def example_nll(part: Predictions, floor: float = FLOOR) -> np.ndarray:
    """Return −log p_y of each example, in float64; a probability of 0 counts as ``floor``.

    Each row is divided by its sum: with few digits, it need not be 1. Fits and comparisons print
    this NLL, with the floor of :func:`probability_floor`.

    >>> p = Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    >>> example_nll(p, 0.25).round(4)
    array([0.6931, 1.6094])
    """
    rows, scores = np.arange(len(part)), part.scores.astype(np.float64)
    if part.kind == "logits":
        return np.asarray(-log_softmax(unmasked(scores))[rows, part.labels])
    positive = np.where(scores <= 0, floor, scores)
    return np.asarray(np.log(positive.sum(axis=1)) - np.log(positive[rows, part.labels]))


def zero_label_count(predictions: Predictions) -> int:
    """Count the examples that give their own label probability 0."""
    if predictions.kind == "logits":
        return 0
    chosen = predictions.scores[np.arange(len(predictions)), predictions.labels]
    return int((chosen <= 0).sum())


def without_masks(predictions: Predictions) -> Predictions:
    """Return predictions whose logits of −∞ become the smallest probability, FLOOR."""
    scores = predictions.scores
    if predictions.kind != "logits" or not scores.size or scores.min() != -np.inf:
        return predictions
    return predictions.with_checked_scores(unmasked(scores.astype(np.float64)), "logits")


def probability_floor(predictions: Predictions) -> float:
    """Return the probability that replaces a 0: a 0 means "below the source's resolution".

    It is half of the smallest positive value if zeros occur: half a digit of rounded probabilities,
    half a vote of a forest or of nearest neighbours. Without zeros, half of the last digit if all
    values are rounded. Otherwise, and for logits, 1.2e-38, the smallest normal float32 number.

    >>> p = Predictions.from_probabilities([[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]], [0, 1])
    >>> probability_floor(p)
    0.125
    """
    if predictions.kind == "logits":
        return FLOOR
    smallest, zeros = smallest_positive(predictions.scores)
    digits = 0 if zeros else grid_digits(predictions.scores)
    return floor_of(smallest, zeros, digits)


def floor_of(smallest: float, zeros: bool, digits: int) -> float:
    """Return the floor of probabilities that have these digits, 0 where they are not rounded."""
    last = 10.0**-digits if digits else 0.0
    return max(FLOOR, (smallest if zeros else min(last, smallest)) / 2)


def fitted_floor(predictions: Predictions) -> float:
    """Return the value of a probability of 0 with the least NLL after temperature scaling.

    A rounded 0 can be anywhere below half a digit, most often far below: half a digit would make
    the scores flatter than they were, and T too small. The search goes down from
    :func:`probability_floor` in steps of √10 while the NLL falls. It counts one more example, whose
    label has probability 0: otherwise zeros that are never right would go down without end.

    >>> p = Predictions.from_probabilities([[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]] * 9, [0, 1] * 9)
    >>> fitted_floor(p)
    0.125
    """
    floor = probability_floor(predictions)
    if floor == FLOOR or not smallest_positive(predictions.scores)[1]:
        return floor
    return lowered_floor(predictions[:: -(-predictions.scores.size // _FLOOR_SCORES)], floor)


def lowered_floor(part: Predictions, floor: float) -> float:
    """Go down from ``floor`` while the NLL of these examples falls."""
    start, best = floor, _nll_with_floor(part, floor, 0.0)
    while (lower := floor / 10**0.5) > FLOOR:
        value = _nll_with_floor(part, lower, math.log(start / lower))
        if value >= best:
            break
        floor, best = lower, value
    return floor


def _nll_with_floor(predictions: Predictions, floor: float, distance: float) -> float:
    """Return the NLL after temperature scaling, with one more label of probability 0."""
    logits = log_probabilities(predictions.scores.astype(np.float64), floor)
    best = best_inverse_temperature(logits, predictions.labels, weights=predictions.weights)
    return best.nll + best.beta * distance / predictions.size


def as_kind(kind: Kind, predictions: Predictions, floor: float) -> Predictions:
    """Return predictions as logits or probabilities, computed as when a calibrator is applied."""
    if kind == predictions.kind:
        return predictions
    scores = predictions.scores.astype(np.float64)
    scores = log_probabilities(scores, floor) if kind == "logits" else softmax(scores)
    return predictions.with_checked_scores(scores, kind)


def smallest_positive(probabilities: np.ndarray) -> tuple[float, bool]:
    """Return the smallest value above 0, and whether there are zeros (or −1e-9, tolerated)."""
    smallest, zeros = np.inf, False
    for part in _chunks(probabilities):
        low = float(part.min())
        if low <= 0:
            zeros, low = True, float(part[part > 0].min())
        smallest = min(smallest, low)
    return smallest, zeros


def grid_digits(probabilities: np.ndarray) -> int:
    """Return the least d so that every value has at most d decimals; 0 if they are not rounded.

    Values count as rounded within the precision of their type.
    """
    exact = 4 * float(np.finfo(probabilities.dtype).eps)
    for digits in range(1, _MOST_DIGITS.get(probabilities.dtype, 0) + 1):
        if all(_on_grid(part, 10.0**digits, exact) for part in _chunks(probabilities)):
            return digits
    return 0


def _on_grid(values: np.ndarray, steps: float, exact: float) -> bool:
    scaled = values.astype(np.float64) * steps
    return bool((np.abs(scaled - scaled.round()) <= steps * exact).all())


def _chunks(scores: np.ndarray) -> Iterator[np.ndarray]:
    size = max(1, _CHUNK // scores.shape[1])
    return (scores[start : start + size] for start in range(0, len(scores), size))
