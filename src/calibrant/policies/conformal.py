"""Prediction sets that contain the true class with a promised probability: LAC, APS, RAPS.

Each class k of a row gets a score s_k, small where the class is plausible. With o_k the place of
class k (1 for the most probable):

- LAC (Sadinle, Lei & Wasserman 2019): s_k = 1 − p_k, the smallest sets.
- APS (Romano, Sesia & Candès 2020): s_k = Σ_{j: o_j < o_k} p_j, larger sets where a row is hard.
- RAPS (Angelopoulos et al. 2021): s_k + penalty · max(0, o_k − free), few very large sets.

APS and RAPS sets hold the most probable class, unless they are randomised: then s_k has
(1 − u) · p_k more, with one u for each row, uniform in [0, 1), which makes coverage exact. u is
a hash of the seed and of the row's probabilities. So a row has the same set in any file, batch or
request, and the scores of validation rows and new rows are made by one fixed rule, which is all
that the promise needs. (Numbers drawn by place would be the same for each request of one row.)

The set of a row has the classes with s_k ≤ q. From validation scores s_1 … s_n of the true classes,
q is the ⌈(n + 1) · coverage⌉-th smallest, so that a new row's set contains its class with
probability at least ``coverage``. Where that number is above n, q is infinite and the set is the
whole one.

In groups, whose rows depend on each other, each of G groups weighs 1/(G + 1), spread evenly over
its rows, and a new one as much at infinity (Lee, Barber & Willett 2023): the promise is then about
a row drawn from a new group. Class-conditional sets have one q for each class (Vovk's Mondrian
conformal prediction), and the promise holds for the rows of each class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant.arguments import check_whole
from calibrant.arrays import to_numpy
from calibrant.errors import InputError, unknown_name
from calibrant.metrics.blocks import hash_values
from calibrant.predictions import Predictions

__all__ = ["SCORES", "conformal_quantile", "conformity_scores", "prediction_sets", "true_scores"]

SCORES = ("lac", "aps", "raps")
_CHUNK = 1 << 22  # Scores at a time.
_ROUNDING = 1e-9  # 100 · 0.9 is slightly more than 90, and sums of probabilities round.


def conformity_scores(
    predictions: Predictions,
    score: str = "lac",
    *,
    penalty: float = 0.01,
    free: int = 1,
    randomised: bool = False,
    seed: int = 0,
    chunk: int = _CHUNK,
) -> np.ndarray:
    """Return the score of every class of every row, (n, K); small where a class is plausible.

    ``chunk`` scores are computed at a time.

    >>> p = Predictions.from_probabilities([[0.5, 0.2, 0.3]], [0])
    >>> conformity_scores(p, "aps").round(3), conformity_scores(p, "lac").round(3)
    (array([[0. , 0.8, 0.5]]), array([[0.5, 0.8, 0.7]]))
    """
    options = (penalty, free, randomised, seed, chunk)
    parts = [values for _, values in _by_chunks(predictions, score, *options)]
    return np.concatenate(parts) if parts else np.empty((0, predictions.classes))


def true_scores(predictions: Predictions, score: str = "lac", **options: Any) -> np.ndarray:
    """Return the score of the true class of each row, (n,); options as of conformity_scores."""
    labels = np.asarray(to_numpy(predictions.labels))
    own = np.empty(len(labels))
    for rows, values in _by_chunks(predictions, score, **options):
        own[rows] = np.take_along_axis(values, labels[rows, None], axis=1)[:, 0]
    return own


def _by_chunks(
    predictions: Predictions,
    score: str,
    penalty: float = 0.01,
    free: int = 1,
    randomised: bool = False,
    seed: int = 0,
    chunk: int = _CHUNK,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows and their scores, a few million numbers at a time."""
    if score not in SCORES:
        raise unknown_name("score of prediction sets", str(score), SCORES)
    check_whole("A randomised set", "a seed that is a whole number ≥ 0", seed, 0)
    check_whole("RAPS", "a whole number of free classes ≥ 0", free, 0)
    if not 0 <= penalty < math.inf:
        raise InputError(f"RAPS expects a penalty ≥ 0, got {penalty}.")
    size = max(1, chunk // predictions.classes)
    for start in range(0, len(predictions), size):
        rows = slice(start, start + size)
        probabilities = np.asarray(to_numpy(predictions[rows].probabilities()), np.float64)
        if score == "lac":
            yield rows, 1 - probabilities
        else:
            # u = 1 leaves the sum of the classes before.
            taken = _drawn(probabilities, seed) if randomised else np.ones(len(probabilities))
            cost = penalty if score == "raps" else 0.0
            yield rows, _adaptive(probabilities, taken, cost, free)


def _drawn(probabilities: np.ndarray, seed: int) -> np.ndarray:
    """Return the u of each row, from 15 bits of each probability: more depend on the batch.

    >>> _drawn(np.array([[0.2, 0.8], [0.8, 0.2], [0.2, 0.8 + 1e-12]]), seed=0).round(3)
    array([0.341, 0.373, 0.341])
    """
    bits = (probabilities.astype(np.float32) + np.float32(0)).view(np.uint32) >> np.uint32(8)
    hashed = hash_values(np.full(len(bits), seed % (1 << 63)))
    for column in bits.T:
        hashed = hash_values(hashed ^ column)
    return np.asarray((hashed >> np.uint64(11)) * 2.0**-53)


def _adaptive(probabilities: np.ndarray, u: np.ndarray, penalty: float, free: int) -> np.ndarray:
    """Return the scores of APS, and with a penalty those of RAPS."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    falling = np.take_along_axis(probabilities, order, axis=1)
    values = np.cumsum(falling, axis=1) - u[:, None] * falling
    values += penalty * np.maximum(0, np.arange(1, probabilities.shape[1] + 1) - free)
    in_place: np.ndarray = np.empty_like(values)
    np.put_along_axis(in_place, order, values, axis=1)
    return in_place


def conformal_quantile(
    scores: np.ndarray, coverage: float, groups: np.ndarray | None = None
) -> float:
    """Return q: the ⌈(n + 1) · coverage⌉-th smallest score, or infinity where n is too small.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(8.0), 0.9)
    (9.0, inf)
    """
    if not 0 < coverage < 1:
        raise InputError(f"A coverage must be in (0, 1), got {coverage}.")
    order = np.argsort(scores, kind="stable")
    if groups is None:
        place = math.ceil((len(scores) + 1) * coverage - _ROUNDING)
        return float(scores[order[place - 1]]) if place <= len(scores) else math.inf
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weight = 1 / ((len(sizes) + 1) * sizes[number])
    place = int(np.searchsorted(np.cumsum(weight[order]), coverage - _ROUNDING))
    return float(scores[order[place]]) if place < len(scores) else math.inf


def prediction_sets(
    predictions: Predictions,
    thresholds: np.ndarray,
    *,
    score: str = "lac",
    **options: Any,
) -> np.ndarray:
    """Return which classes are in the set of each row; ``thresholds`` has one q for each class.

    The options are those of :func:`conformity_scores`.

    >>> p = Predictions.from_probabilities([[0.5, 0.2, 0.3]], [0])
    >>> prediction_sets(p, np.full(3, 0.75))
    array([[ True, False,  True]])
    """
    inside = np.empty((len(predictions), predictions.classes), bool)
    for rows, values in _by_chunks(predictions, score, **options):
        inside[rows] = values <= thresholds + _ROUNDING
    return inside
