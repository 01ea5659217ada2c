"""A confidence threshold with a guarantee: among what is accepted, at most a given share is wrong.

Learn then test (Angelopoulos, Bates, Candès, Jordan, Lei 2021). The thresholds stand before any
data is seen: 1 − t from 1e-4 to 1 in steps of 10^(1/100). For a threshold t fixed in advance, the
wrong ones among the n accepted are Binomial(n, R(t)), so "R(t) is above the target" is rejected at
level δ if P[Binomial(n, target) ≤ wrong] ≤ δ; this is the same as the Clopper–Pearson upper bound
of the risk being at most the target. Testing begins at eleven of the thresholds, each at δ/11, and
goes on from each to looser ones while they pass (fixed-sequence testing with several starts). So
with probability 1 − δ no threshold that passed has a risk above the target; the loosest is taken.

The confidence of an entity is learned on the same split, by a map that never decreases
(:class:`~calibrant.comparison.EntityMap`). So the thresholds are those of what the map is given,
which validation has no part in, and are put through the map: whatever it learned, the same entities
are accepted.

It holds for entities that are drawn as the validation ones were, each by itself. Entities of one
sentence are not quite independent, and texts of another kind are not covered at all. Nor is what
was chosen on the same split: what the map is given (product, least or mean), and a map of words
where it changes tags. Then each validation sentence has the tags of a map that was fitted on other
sentences, which is nearly, not exactly, the one in use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.errors import InputError

__all__ = ["Guarantee", "binomial_tail", "clopper_pearson_upper", "guaranteed_threshold"]

_PER_DECADE = 100
THRESHOLDS = 1 - 10.0 ** (np.arange(-4 * _PER_DECADE, 1) / _PER_DECADE)
# Half a decade apart, and a quarter in the last one, where most confidences of a weak model lie.
STARTS = (*range(0, 3 * _PER_DECADE, 50), *range(3 * _PER_DECADE, len(THRESHOLDS), 25))


@dataclass(frozen=True)
class Guarantee:
    """A threshold and what is known of it.

    ``accepted`` and ``wrong`` of ``entities`` are counts on the validation split; ``upper`` is the
    Clopper–Pearson upper bound of the risk at this one threshold. ``threshold`` is above 1, and
    nothing is accepted, where no threshold passed.
    """

    threshold: float
    target: float
    level: float
    entities: int
    accepted: int
    wrong: int
    upper: float

    def __str__(self) -> str:
        target, level = f"{100 * self.target:g}%", f"{100 * self.level:g}%"
        if self.threshold > 1:
            return (
                f"No threshold keeps the risk at {target} with confidence {level}, judged by "
                f"{self.entities:,} validation entities: nothing is accepted."
            )
        return (
            f"Accepted from confidence {self.threshold:.4f} on: with probability {level} "
            f"at most {target} of such entities are wrong, if texts are like the validation "
            f"split's. There it accepts {self.accepted:,} of {self.entities:,}, of which "
            f"{self.wrong:,} are wrong."
        )


def guaranteed_threshold(
    confidence: np.ndarray,
    correct: np.ndarray,
    target: float,
    level: float = 0.9,
    *,
    thresholds: np.ndarray = THRESHOLDS,
) -> Guarantee:
    """Find the loosest threshold whose risk is at most ``target`` with probability ``level``.

    ``confidence`` and ``correct`` are those of validation entities. ``thresholds`` are
    :data:`THRESHOLDS`, or these after the non-decreasing map that made the confidences.

    >>> confidence = np.linspace(0.5, 1, 1000)
    >>> found = guaranteed_threshold(confidence, confidence > 0.6, target=0.05)
    >>> round(found.threshold, 3), found.accepted, found.wrong
    (0.593, 814, 14)
    """
    if not 0 < target < 1 or not 0 < level < 1:
        raise InputError(f"A target risk and a level lie in (0, 1): got {target} and {level}.")
    confidence, correct = to_numpy(confidence).astype(float), to_numpy(correct).astype(bool)
    if confidence.shape != correct.shape or confidence.ndim != 1:
        raise InputError(
            f"Expected one confidence and one correctness for each entity, got "
            f"{confidence.shape} and {correct.shape}."
        )
    accepted = _at_least(thresholds, confidence)
    wrong = _at_least(thresholds, confidence[~correct])

    @functools.cache
    def passes(index: int) -> bool:
        tail = binomial_tail(int(wrong[index]), int(accepted[index]), target)
        return tail <= (1 - level) / len(STARTS)

    reached = [end for start in STARTS if (end := _chain(passes, start)) is not None]
    if not reached:
        return Guarantee(math.inf, target, level, len(confidence), 0, 0, 1.0)
    best = max(reached)
    n, k = int(accepted[best]), int(wrong[best])
    upper = clopper_pearson_upper(k, n, level)
    return Guarantee(float(thresholds[best]), target, level, len(confidence), n, k, upper)


def binomial_tail(wrong: int, n: int, risk: float) -> float:
    """Return P[Binomial(n, risk) ≤ wrong].

    >>> round(binomial_tail(1, 3, 0.5), 6)
    0.5
    """
    if wrong >= n:
        return 1.0
    log_choose = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(wrong + 1)
    ]
    k = np.arange(wrong + 1)
    terms = np.array(log_choose) + k * math.log(risk) + (n - k) * math.log1p(-risk)
    largest = terms.max()
    return min(1.0, float(np.exp(largest) * np.exp(terms - largest).sum()))


def clopper_pearson_upper(wrong: int, n: int, level: float = 0.9) -> float:
    """Return the upper bound: the largest risk r with P[Binomial(n, r) ≤ wrong] ≥ 1 − level.

    Clopper & Pearson 1934. By bisection, to 1e-12.

    >>> round(clopper_pearson_upper(0, 10, 0.9), 4)  # 1 − 0.1^(1/10)
    0.2057
    """
    if wrong >= n:
        return 1.0
    low, high = wrong / n, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if 0 < middle < 1 and binomial_tail(wrong, n, middle) < 1 - level:
            high = middle
        else:
            low = middle
    return high


def _at_least(thresholds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Count the values that reach each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")


def _chain(passes: Callable[[int], bool], start: int) -> int | None:
    """Return the last threshold that testing reaches from ``start``."""
    end = None
    for index in range(start, len(THRESHOLDS)):
        if not passes(index):
            break
        end = index
    return end
