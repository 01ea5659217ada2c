"""Take the simplest calibrator that none beats significantly in log-loss, judged on VALID."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Differences", "Interval", "choose", "losses_if_wrong", "with_one_mistake"]

LEVEL = 0.95
NEGLIGIBLE = 1e-6  # Nats: what rounding and the tolerance of the solvers can make.
_SAFE = "temperature"
_LEAST = float(np.finfo(np.float32).tiny)  # What a probability of 0 counts as in an NLL.


@dataclass(frozen=True)
class Interval:
    """A mean difference with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} (95 % interval {self.low:.4g} to {self.high:.4g})"


class Differences:
    """Paired bootstrap of the mean NLL of several calibrators on the same examples.

    ``nll`` has shape (calibrators, n); ``weights`` are sample weights, (n,), or None. Blocks of
    examples (sentences where there are any) are drawn with replacement, the same for all
    calibrators, so that what makes an example hard for all cancels.

    >>> nll = np.array([[1.0, 2.0, 3.0, 4.0], [0.5, 1.5, 2.6, 3.4]])
    >>> print(Differences(nll, np.arange(4), replicates=1000, seed=0).gain(over=0, of=1))
    0.5 (95 % interval 0.425 to 0.5506)
    """

    def __init__(
        self,
        nll: np.ndarray,
        block: np.ndarray,
        replicates: int,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> None:
        _, block = np.unique(block, return_inverse=True)
        count = np.bincount(block, weights)
        each = nll if weights is None else nll * weights
        sums = np.stack([np.bincount(block, row) for row in each], axis=1)
        self.mean = np.average(nll, axis=1, weights=weights)
        self._replicates = _replicates(sums, count, replicates, seed)

    @classmethod
    def of_sums(
        cls, sums: np.ndarray, count: np.ndarray, replicates: int, seed: int
    ) -> Differences:
        """Return the same from (blocks, calibrators) sums and the examples of each block."""
        made, used = cls.__new__(cls), count > 0
        made.mean = sums.sum(axis=0) / count.sum()
        made._replicates = _replicates(sums[used], count[used], replicates, seed)
        return made

    def gain(self, over: int, of: int) -> Interval:
        """Return how much calibrator ``of`` lowers the mean NLL of calibrator ``over``."""
        gains = self._replicates[:, over] - self._replicates[:, of]
        low, high = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(float(self.mean[over] - self.mean[of]), float(low), float(high))

    def is_beaten(self, one: int, by: Sequence[int] | None = None) -> bool:
        """Whether a calibrator (of ``by``, or any) lowers the mean NLL of ``one`` significantly.

        The largest of all gains, each in units of its bootstrap deviation, against the same largest
        among the replicates about their means (max-T; Romano & Wolf 2005): 5 % is the risk that any
        calibrator seems better by chance, however many are compared. A gain below 1e-6 does not
        count.
        """
        others = slice(None) if by is None else list(by)
        gain = self.mean[one] - self.mean[others]
        replicates = self._replicates[:, [one]] - self._replicates[:, others]
        deviation = replicates.std(axis=0)
        real, noisy = gain > NEGLIGIBLE, deviation > NEGLIGIBLE**2
        if not real.any() or (real & ~noisy).any():
            return bool(real.any())
        largest = ((replicates - gain)[:, noisy] / deviation[noisy]).max(axis=1)
        return bool((gain[noisy] / deviation[noisy]).max() > np.quantile(largest, LEVEL))


def _replicates(sums: np.ndarray, count: np.ndarray, replicates: int, seed: int) -> np.ndarray:
    """Return the (R, calibrators) means of blocks that are drawn with replacement."""
    probability = np.full(len(count), 1 / len(count))
    drawn = np.random.default_rng(seed).multinomial(len(count), probability, replicates)
    return np.asarray((drawn @ sums) / (drawn @ count)[:, None])


def with_one_mistake(
    losses: np.ndarray, if_wrong: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return (calibrators, n) losses as if there were one more example, which is wrong.

    Examples that are all right praise the calibrator that claims most: T near 0 has no loss at all,
    and pays for it with the first mistake. Any of the examples may be that one, so its loss is the
    mean of the losses ``if_wrong``, spread over the examples.

    >>> nll = -np.log([[0.9, 0.9], [1.0, 1.0]])
    >>> with_one_mistake(nll, losses_if_wrong(nll)).round(2).tolist()
    [[1.26, 1.26], [43.67, 43.67]]
    """
    mistake = np.average(if_wrong, axis=1, weights=weights)[:, None]
    return np.asarray(losses + mistake / (losses.shape[1] if weights is None else weights.sum()))


def losses_if_wrong(nll: np.ndarray) -> np.ndarray:
    """Return −log(1 − p_y) of examples with these losses −log p_y."""
    return np.asarray(-np.log(np.maximum(-np.expm1(-nll), _LEAST)))


def choose(
    names: Sequence[str], differences: Differences, brier: Differences | None = None
) -> tuple[str, str]:
    """Return the recommended one of ``names``, ordered from simple to flexible, and the reason.

    The first is the calibrator that changes nothing. A calibrator is skipped if another one beats
    it significantly (:meth:`Differences.is_beaten`), or if it raises the Brier score of the first
    significantly. The simplest calibrator that is left is chosen, or the first if none is. A
    temperature needs no significance to replace the first: one number cannot overfit, and most
    scores need it.
    """
    sound = [i for i in range(len(names)) if brier is None or i == 0 or brier.gain(0, i).high >= 0]
    gain = differences.mean[0] - differences.mean
    if _SAFE in names and (safe := list(names).index(_SAFE)) in sound and gain[safe] > NEGLIGIBLE:
        sound = [safe, *(i for i in sound if i not in (0, safe))]
    unbeaten = (i for i in sound if not differences.is_beaten(i))
    # None is left where what beats them all spoils the Brier score: then they are their own rivals.
    among_sound = (i for i in sound if not differences.is_beaten(i, sound))
    chosen = next(unbeaten, None)
    spoiled = chosen is None
    chosen = next(among_sound, sound[0]) if chosen is None else chosen
    best = int(differences.mean.argmin())
    return names[chosen], f"{names[chosen]}: {_reason(names, differences, chosen, best, spoiled)}"


def _reason(
    names: Sequence[str], differences: Differences, chosen: int, best: int, spoiled: bool
) -> str:
    """Return why; ``spoiled``: the best one beats the choice, and raises the Brier score."""
    if best == 0:
        return "no calibrator lowers the cross-validated NLL; leave the scores unchanged."
    if chosen == 0:
        gain = differences.gain(0, best)
        but = (
            "but raises the Brier score by more than chance"
            if spoiled
            else f"which the best of {len(names) - 1} can do by chance"
        )
        return (
            f"leave the scores unchanged; the best calibrator, {names[best]}, lowers the "
            f"cross-validated NLL by {gain}, {but}."
        )
    lowered = differences.gain(0, chosen)
    reason = f"lowers the cross-validated NLL by {lowered}"
    if names[chosen] == _SAFE and lowered.low <= 0:
        reason += ", which chance can explain, but one number hardly overfits"
    if chosen == best:
        simpler = ", and every simpler one is significantly worse" if chosen > 1 else ""
        return f"{reason}; no calibrator does better{simpler}."
    more = differences.gain(chosen, best)
    if spoiled:
        return (
            f"{reason}; the best calibrator, {names[best]}, gains {more.value:.2g} more, but "
            "raises the Brier score by more than chance."
        )
    return (
        f"{reason}; the best calibrator, {names[best]}, gains {more.value:.2g} more, which chance "
        "can explain, so the simpler one is chosen."
    )
