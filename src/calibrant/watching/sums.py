"""The sums of a chunk of unlabelled predictions, and what they imply for accuracy and F1.

With honest probabilities p the true label of each example is a draw from p. So all sums here are
means or variances of what labels would show, and they add up over parts of a chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from calibrant.watching.true_entities import OpeningRates

__all__ = [
    "ChunkSums",
    "Estimate",
    "expected_accuracy",
    "expected_entity_f1",
    "expected_macro_f1",
    "row_sums",
]

MOST_CLASSES = 256  # With more, F1 has no interval: it needs sums of pairs of classes.


class Estimate(NamedTuple):
    """A value and its interval; NaN if there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass
class ChunkSums:
    """Sums over examples; K classes. They add up.

    ``claimed``, ``variance`` and ``skew`` are Σ c, Σ c (1 − c) and Σ c (1 − c) (1 − 2c) of the
    confidences c. By class k: ``predicted`` counts, ``found`` is Σ p_k where k is predicted,
    ``found_squares`` Σ p_k² there, ``mass`` is Σ p_k over all. ``pairs`` is Σ p pᵀ, and row m of
    ``found_pairs`` is Σ p_m p where m is predicted. ``places`` counts confidences by place.
    """

    n: int
    claimed: float
    variance: float
    skew: float
    above: int
    predicted: np.ndarray
    found: np.ndarray
    found_squares: np.ndarray
    mass: np.ndarray | float
    pairs: np.ndarray | float
    found_pairs: np.ndarray | float
    shown: np.ndarray
    places: np.ndarray
    labelled: int = 0
    right: int = 0
    entities: int = 0
    entities_found: float = 0.0
    entities_variance: float = 0.0
    entities_mass: np.ndarray | float = 0.0  # By part of the opening probability.
    entities_mass_variance: float = 0.0

    def __add__(self, other: ChunkSums) -> ChunkSums:
        return ChunkSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def row_sums(
    probabilities: np.ndarray | None,
    predicted: np.ndarray,
    confidence: np.ndarray,
    classes: int | None = None,
) -> dict[str, Any]:
    """Return the sums over the rows of honest probabilities (n, K), by name.

    ``predicted`` is the class that the model gives as its answer, and ``confidence`` its p. Where
    only the confidence is known, ``classes`` says how many there are, and there are no sums of the
    probabilities of others: F1 stays unknown.
    """
    n = len(confidence)
    if probabilities is not None:
        classes = probabilities.shape[1]
    c = np.clip(confidence, 0.0, 1.0)
    sums: dict[str, Any] = {
        "claimed": float(c.sum()),
        "variance": float((c * (1 - c)).sum()),
        "skew": float((c * (1 - c) * (1 - 2 * c)).sum()),
        "predicted": np.bincount(predicted, minlength=classes or 0),
        "found": np.bincount(predicted, c, minlength=classes or 0),
        "found_squares": np.bincount(predicted, c**2, minlength=classes or 0),
        "mass": math.nan,
        "pairs": math.nan,
        "found_pairs": math.nan,
    }
    if probabilities is None:
        return sums
    sums["mass"] = probabilities.sum(axis=0)
    if probabilities.shape[1] <= MOST_CLASSES:
        classes = probabilities.shape[1]
        chosen = np.zeros((n, classes))
        chosen[np.arange(n), predicted] = c
        sums |= {"pairs": probabilities.T @ probabilities, "found_pairs": chosen.T @ probabilities}
    return sums


def expected_accuracy(
    sums: ChunkSums, level: float, inflation: float = 1.0, reference: float = 0.0
) -> Estimate:
    """Return the mean confidence, and where the accuracy of the chunk lies with this probability.

    The number of right predictions is a sum of independent draws; its quantiles are those of the
    normal distribution with a correction for skewness (Cornish & Fisher 1938). ``inflation``
    multiplies the variance, for draws that depend on each other; ``reference`` is the variance of
    what the reference says about the mean confidence.

    >>> c = np.full(100, 0.9)
    >>> p = np.stack([1 - c, c], axis=1)
    >>> found = row_sums(p, np.ones(100, int), c)
    >>> sums = ChunkSums(100, above=0, shown=found["predicted"], places=np.zeros(1), **found)
    >>> tuple(round(x, 3) for x in expected_accuracy(sums, 0.95))
    (0.9, 0.837, 0.955)
    """
    if not sums.n:
        return Estimate(math.nan)
    mean = sums.claimed / sums.n
    spread = math.sqrt(sums.variance * inflation / sums.n**2 + reference)
    own = math.sqrt(sums.variance * inflation)
    skewness = sums.skew * inflation / own**3 if own > 1e-9 else 0.0
    skewness *= own / (spread * sums.n) if spread else 0.0  # What the reference adds is not skewed.
    return _interval(mean, spread, level, skewness)


def _interval(mean: float, spread: float, level: float, skewness: float = 0.0) -> Estimate:
    z = NormalDist().inv_cdf((1 + level) / 2)
    bend = min(max(skewness, -1.0), 1.0) * (z * z - 1) / 6
    low, high = (mean + spread * (end + bend) for end in (-z, z))
    return Estimate(mean, min(max(low, 0.0), mean), max(min(high, 1.0), mean))


def expected_macro_f1(
    sums: ChunkSums, level: float, inflation: float = 1.0, reference: float = 0.0
) -> Estimate:
    """Return the mean over classes of 2 TP / (predicted + true), each from its expected counts.

    Classes count whose predicted or expected true number is at least one half. The interval is by
    the delta method: the label k of an example changes F1 by α_k if k was predicted, less β_k, with
    α_k = 2 / (K d_k), β_k = 2 TP_k / (K d_k²) and d_k = predicted + expected true. ``reference`` is
    the variance of what the reference says about the mean confidence: confidences that are all too
    high by δ raise F1 by δ Σ_k α_k predicted_k.

    >>> p = np.array([[0.8, 0.2], [0.4, 0.6]])
    >>> found = row_sums(p, np.array([0, 1]), np.array([0.8, 0.6]))
    >>> sums = ChunkSums(2, above=0, shown=found["predicted"], places=np.zeros(1), **found)
    >>> round(expected_macro_f1(sums, 0.95).value, 4)  # (1.6 / 2.2 + 1.2 / 1.8) / 2
    0.697
    """
    if not isinstance(sums.mass, np.ndarray):
        return Estimate(math.nan)
    both = sums.predicted + sums.mass
    counted = (sums.predicted > 0) | (sums.mass >= 0.5)
    if not counted.any():
        return Estimate(math.nan)
    share = 2 / np.where(counted, both, np.inf) / counted.sum()  # α
    value = float((share * sums.found).sum())
    if not isinstance(sums.pairs, np.ndarray):
        return Estimate(value)
    loss = share * sums.found / np.where(counted, both, np.inf)  # β
    squares = float(((share**2 - 2 * share * loss) * sums.found + loss**2 * sums.mass).sum())
    means = float(
        (share**2 * sums.found_squares).sum()
        - 2 * share @ np.asarray(sums.found_pairs) @ loss
        + loss @ sums.pairs @ loss
    )
    learned = float((share * sums.predicted).sum()) ** 2 * reference
    return _interval(value, math.sqrt(max(squares - means, 0.0) * inflation + learned), level)


def expected_entity_f1(
    sums: ChunkSums,
    level: float,
    inflation: float = 1.0,
    rates: OpeningRates | None = None,
    reference: tuple[float, int] = (0.0, 0),
) -> Estimate:
    """Return 2 TP / (predicted + true) of entities, micro over types, from expected counts.

    TP is the sum of the entities' confidences. The expected number of true ones is the mass of tags
    that open an entity, each part times its rate on the reference. ``reference`` has the variance
    of the mean confidence there, and the number of true ones.
    """
    mass = np.atleast_1d(sums.entities_mass)
    rate, rate_variance = rates or (np.ones(len(mass)), np.zeros(len(mass)))
    true = float(rate @ mass)
    both = sums.entities + true
    if both < 0.5:
        return Estimate(math.nan)
    value = min(2 * sums.entities_found / both, 1.0)
    share, loss = 2 / both, value / both
    # A right one is a true one, too: their covariance is the variance of the right ones.
    variance = (share**2 - 2 * share * loss) * sums.entities_variance
    variance += loss**2 * max(sums.entities_mass_variance, sums.entities_variance)
    learned = (share * sums.entities) ** 2 * reference[0]
    learned += (loss * true) ** 2 / reference[1] if reference[1] else 0.0
    learned += loss**2 * float(rate_variance @ mass**2)
    return _interval(value, math.sqrt(max(variance, 0.0) * inflation + learned), level)
