"""Find the lowest confidence above which at most a target share is wrong.

Learn then test (Angelopoulos, Bates, Candès, Jordan & Lei 2021). The thresholds t are fixed before
any data is seen. For each, "the risk R(t) is above the target α" is a hypothesis with a p-value:

- Independent rows: P[Binomial(n, α) ≤ wrong] with n accepted, exact for a threshold fixed before.
- Groups, whose rows depend on each other: R(t) > α means E[Z] > 0 for Z = wrong − α · accepted of a
  group, which lies in [−α m, (1 − α) m] for groups of at most m rows. A bettor against it has the
  wealth Π (1 − λ_g Z_g), where λ_g depends on earlier groups alone; its expectation is at most 1,
  so 1 / wealth is a p-value (Waudby-Smith & Ramdas 2024). Nothing is assumed about what happens
  inside of a group. m is the size of the largest validation group, of which nothing can be won,
  only lost: it sets the bound of the others, and where it is the only one of its size, the others
  say nothing about such groups.
- The same groups, if every group counts as one: the risk is the mean of wrong / accepted over
  groups with accepted rows. Then Z = wrong / accepted − α, or 0 if nothing is, lies in
  [−α, 1 − α] for any sizes, so the largest group is no risk for the same bettor.

Thresholds are tested from tight to loose by the fallback procedure (Wiens 2003). Each start
brings its share of δ = 1 − level. A threshold that passes hands what it had to the next one; one
that fails loses it. With probability 1 − δ no threshold that passed has a risk above the target.
Most of δ is given at 1 − t = target, where an honest confidence is safe, and less to tighter ones.
Accepting everything gets more where there are few rows, which every other threshold cuts further.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.policies.p_values import betting_p_value, binomial_tail, loosest, upper_bound

__all__ = ["THRESHOLDS", "AcceptedRisk", "find_threshold", "least_refused", "row_starts", "starts"]

# Times the target: where what is accepted claims a greater risk, calibrating first is advised. Such
# confidences lie close together, and between two thresholds there are too many of them.
_FAR_OFF = 2
_PER_DECADE = 100
_TIGHTEST = -7  # 1 − 1e-7: float32 has no number between this and 1 but one.
_LOG = 10.0 ** (np.arange(_TIGHTEST * _PER_DECADE, 1) / _PER_DECADE)
# Close to each other on both scales: in 1 − t below 0.1, in t above.
THRESHOLDS = 1 - np.unique(np.concatenate([_LOG[_LOG < 0.1], np.arange(20, 201) / 200]))
# Of δ, accepting all of n rows gets the first number over n · target, and at most the second.
_ROWS_FOR_ALL, _MOST_FOR_ALL = 2.5, 0.25
_RANKS = 100  # Thresholds at ranks of the confidences that are looked at for advice.
_ORDERS = 4  # Wealth is averaged over this many orders of the groups.


class TooLow(NamedTuple):
    """The surest items, whose confidences are too low for a threshold, or for a good one."""

    accepted: int
    confidence: float  # Their mean.
    right: float


@dataclass(frozen=True)
class AcceptedRisk:
    """A threshold (infinity: nothing passed) and what it accepts of the validation data.

    ``error`` is the risk if everything is accepted, and ``risk`` that of what is, both averaged
    over rows or over groups; ``upper`` is the upper bound of the latter,
    for a threshold that was fixed before: of the chosen one, the promise is the target. ``too_low``
    is known where honest confidences of the same order would probably accept more: if nothing
    passed, what these would accept, or all where no confidence is near a threshold; else what
    passed.
    """

    threshold: float
    n: int
    accepted: int
    wrong: int
    errors: int
    units: int
    largest: int
    upper: float
    error: float
    risk: float
    too_low: TooLow | None = None

    @property
    def kept(self) -> float:
        """The accepted share."""
        return self.accepted / self.n if self.n else 0.0


def find_threshold(
    confidence: np.ndarray,
    correct: np.ndarray,
    target: float,
    level: float = 0.9,
    *,
    groups: np.ndarray | None = None,
    average: str = "rows",
    thresholds: np.ndarray = THRESHOLDS,
) -> AcceptedRisk:
    """Find the loosest threshold whose risk is at most ``target`` with probability ``level``.

    ``groups`` has the group of each item; items of one may depend on each other in any way. The
    risk is the wrong share of all accepted items (``average`` "rows") or the mean over groups of
    each one's share ("groups").
    ``thresholds`` are :data:`THRESHOLDS`, or these after a calibrator that never decreases.

    >>> confidence = np.linspace(0.5, 1, 1000)
    >>> found = find_threshold(confidence, confidence > 0.6, target=0.05)
    >>> found.threshold, found.accepted, found.wrong
    (0.585, 830, 30)
    """
    _check(confidence, correct, target, level)
    units = _dependent(confidence, correct, groups, average)
    accepted = _at_least(thresholds, confidence)
    wrong = _at_least(thresholds, confidence[~correct])

    def p_value(index: int) -> float:
        if units is None:
            return binomial_tail(int(wrong[index]), int(accepted[index]), target)
        return units.p_value(thresholds[index], target, 1 - level)

    n, errors = len(confidence), int((~correct).sum())
    every = len(thresholds) == len(THRESHOLDS)
    shares = row_starts(target, n, 1 - level) if units is None and every else starts(target)
    best = loosest(p_value, _within(shares, len(thresholds)), len(thresholds), 1 - level)
    sizes = (n, 1) if units is None else (units.count, units.largest)
    error = _mean_wrong(correct, groups, average)
    again = _dependent(confidence, correct, groups, average)
    if best is None:
        too_low = _too_low(confidence, correct, again, target, 1 - level)
        return AcceptedRisk(math.inf, n, 0, 0, errors, *sizes, 1.0, error, math.nan, too_low)
    counts, kept = (int(accepted[best]), int(wrong[best])), confidence >= thresholds[best]
    upper = upper_bound(_test_at(thresholds[best], counts, again, 1 - level), 1 - level)
    risk = _mean_wrong(correct[kept], None if groups is None else groups[kept], average)
    too_low = None
    if kept.any() and (sure := float(confidence[kept].mean())) < 1 - _FAR_OFF * target:
        too_low = TooLow(counts[0], sure, float(correct[kept].mean()))
    found = (float(thresholds[best]), n, *counts, errors, *sizes, upper, error, risk)
    return AcceptedRisk(*found, too_low)


def _too_low(
    confidence: np.ndarray, correct: np.ndarray, units: _Groups | None, target: float, delta: float
) -> TooLow | None:
    """Return the most items that their order alone can accept, if their confidences are too low.

    They are judged as the threshold that an honest confidence would have, whose share of δ is about
    a fifth. A threshold at a rank depends on the data, so this is advice and no promise.
    """
    if not len(confidence):
        return None
    falling = np.sort(confidence)[::-1]
    ranks = np.unique(np.geomspace(1, len(falling), _RANKS).astype(np.int64)) - 1
    found = None
    for threshold in dict.fromkeys(falling[ranks].tolist()):
        taken = confidence >= threshold
        counts = int(taken.sum()), int((~correct[taken]).sum())
        if _test_at(threshold, counts, units, delta)(target) <= delta / 5:
            sure, right = float(confidence[taken].mean()), float(correct[taken].mean())
            found = TooLow(counts[0], sure, right) if sure < min(right, 1 - target) else found
    return found or _all_too_low(confidence, correct, target)


def _all_too_low(confidence: np.ndarray, correct: np.ndarray, target: float) -> TooLow | None:
    """Return all items if no confidence comes near a threshold, and all claim too little.

    A calibrator of all scores gives such items another order, so theirs says nothing: the top
    probabilities of nearly equal ones follow the largest score, not its lead.
    """
    sure, right, n = float(confidence.mean()), float(correct.mean()), len(confidence)
    chance = 3 * math.sqrt(right * (1 - right) / n)
    far = confidence.max() < 1 - _FAR_OFF * target and sure < right - chance
    return TooLow(n, sure, right) if far else None


def _test_at(
    threshold: float, counts: tuple[int, int], units: _Groups | None, delta: float
) -> Callable[[float], float]:
    """Return the p-value of each risk at one threshold."""
    if units is not None:
        return lambda risk: units.p_value(threshold, risk, delta)
    accepted, wrong = counts
    return lambda risk: binomial_tail(wrong, accepted, risk)


def _mean_wrong(correct: np.ndarray, groups: np.ndarray | None, average: str) -> float:
    """Return the wrong share of items, or its mean over groups; NaN without any item."""
    if not len(correct):
        return math.nan
    if groups is None or average == "rows":
        return float(1 - correct.mean())
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    return float((np.bincount(number, ~correct, len(sizes)) / sizes).mean())


def starts(target: float) -> dict[int, float]:
    """Return the starts of testing with their shares: most at 1 − t = target, fewer around it."""
    places = [(1.0, 0.2), (0.5, 0.15), (0.25, 0.1), (4 * target, 0.15), (2 * target, 0.15)]
    places += [(target / 4.0**j, 0.5**j) for j in range(12)]
    found: dict[int, float] = {}
    for place, share in places:
        # Thresholds fall, so 1 − t rises; targets near 1 have their looser starts at the end.
        index = int(np.searchsorted(1 - THRESHOLDS, min(place, 1.0) - 1e-12))
        found[index] = found.get(index, 0.0) + share
    total = sum(found.values())
    return {index: share / total for index, share in found.items()}


def row_starts(target: float, n: int, delta: float) -> dict[int, float]:
    """Return the starts for ``n`` independent rows, with the share that accepting all can use.

    All rows are accepted at the last threshold whatever their confidences, so the p-values that
    can occur there are known before any data is seen. What lies between the largest of them that
    the share allows and the share itself is worth nothing there, and goes to the other starts.

    >>> last = len(THRESHOLDS) - 1
    >>> round(row_starts(0.1, 100, 0.1)[last], 4), round(binomial_tail(4, 100, 0.1) / 0.1, 4)
    (0.2371, 0.2371)
    """
    shares, last = starts(target), len(THRESHOLDS) - 1
    given = max(shares[last], min(_MOST_FOR_ALL, _ROWS_FOR_ALL / (n * target))) if n else 0.0
    # A little more, so that this p-value is not above its own level after rounding.
    used = _largest_tail(n, target, given * delta) / delta * (1 + 1e-12)
    rest = 1 - shares.pop(last)
    return {**{i: (1 - used) * share / rest for i, share in shares.items()}, last: used}


def _within(shares: dict[int, float], count: int) -> dict[int, float]:
    """Return the shares of the starts among the first ``count`` thresholds, which sum to one."""
    inside = {index: share for index, share in shares.items() if index < count}
    total = sum(inside.values())
    return {index: share / total for index, share in inside.items()}


def _largest_tail(n: int, target: float, delta: float) -> float:
    """Return the largest P[Binomial(n, target) ≤ k] that is at most ``delta``, 0 without one."""
    low, high = -1, n  # The tail of low is at most delta, that of high above: bisect.
    while high - low > 1:
        middle = (low + high) // 2
        if binomial_tail(middle, n, target) <= delta:
            low = middle
        else:
            high = middle
    return binomial_tail(low, n, target) if low >= 0 else 0.0


def least_refused(error: float, target: float) -> float:
    """Return the share that any confidence must refuse: (μ − α) / (1 − α).

    With base error μ, refusing wrong items alone leaves (μ − refused) / (1 − refused) ≤ α.

    >>> round(least_refused(0.2, 0.05), 4), least_refused(0.01, 0.05)
    (0.1579, 0.0)
    """
    return max(0.0, (error - target) / (1 - target))


class _Groups:
    """Counts of each group at a threshold, which only falls from one call to the next."""

    def __init__(
        self, confidence: np.ndarray, correct: np.ndarray, groups: np.ndarray, average: str
    ) -> None:
        self._as_one = average == "groups"
        _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        self.largest, self.count = int(sizes.max()), len(sizes)
        order = np.argsort(-confidence, kind="stable")
        self._falling = -confidence[order]
        self._number, self._wrong_item = number[order], ~correct[order]
        self._accepted, self._wrong = np.zeros((2, len(sizes)), np.int64)
        self._done = 0
        random, places = np.random.default_rng(0), np.arange(len(sizes))
        self._orders = [random.permutation(places) for _ in range(_ORDERS)]
        self._sizes = sizes

    def p_value(self, threshold: float, risk: float, delta: float) -> float:
        """Return 1 / mean wealth."""
        end = int(np.searchsorted(self._falling, -threshold, side="right"))
        new, self._done = slice(self._done, max(end, self._done)), max(end, self._done)
        np.add.at(self._accepted, self._number[new], 1)
        np.add.at(self._wrong, self._number[new], self._wrong_item[new])
        counts = [self._counts(order, risk) for order in self._orders]
        p_values = [betting_p_value(*each, risk, delta) for each in counts]
        # The mean wealth is at least that of the best order over their number.
        return min(1.0, len(p_values) / sum(1 / max(p, 1e-300) for p in p_values))

    def _counts(self, order: np.ndarray, risk: float) -> tuple[np.ndarray, np.ndarray, int]:
        """Return what is accepted and wrong of each group, and how much that can be at most."""
        accepted, wrong = self._accepted[order], self._wrong[order]
        if self._as_one:
            return accepted > 0, wrong / np.maximum(accepted, 1), 1
        first = int(np.argmax(self._sizes[order]))  # The largest; of several, any.
        if wrong[first] < risk * accepted[first]:
            accepted[first] = wrong[first] = 0
        return accepted, wrong, self.largest


def _dependent(
    confidence: np.ndarray, correct: np.ndarray, groups: np.ndarray | None, average: str
) -> _Groups | None:
    """Return the groups if some of them has several items."""
    if groups is None or len(np.unique(groups)) == len(groups):
        return None
    return _Groups(confidence, correct, groups, average)


def _check(confidence: np.ndarray, correct: np.ndarray, target: float, level: float) -> None:
    if not 0 < target < 1 or not 0 < level < 1:
        raise InputError(f"A target risk and a level must be in (0, 1): got {target} and {level}.")
    if confidence.shape != correct.shape or confidence.ndim != 1:
        raise InputError(
            f"Expected one confidence and one correctness for each item, got "
            f"{confidence.shape} and {correct.shape}."
        )
    if not np.isfinite(confidence).all():
        raise InputError("Confidences must be finite numbers, got NaN or infinity.")


def _at_least(thresholds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Count the values that reach each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")
