"""The ECE that chance alone gives to a calibrated model, and to one that is off by less."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.distributions import student_quantile
from calibrant.errors import InputError
from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.binned import Source, state_of
from calibrant.metrics.blocks import assign_blocks, effective_number
from calibrant.metrics.state import CalibrationState
from calibrant.predictions import Predictions

__all__ = ["chance_ece", "least_ece"]

_DRAWN = 1 << 22  # Gaps of bins drawn at once, where least_ece draws many times.
_HALVINGS = 20  # The lower end is exact to a millionth of the range.


def chance_ece(
    source: Source, *, replicates: int = 1000, quantile: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return mean and upper quantile of the ECE of a calibrated model with the same confidences.

    ECE is an average of absolute values, so it is never 0 on a finite sample. Here the number of
    right answers of each bin is drawn from Binomial(n_b, conf_b), as it would be if every
    confidence were honest (Bröcker & Smith 2007), and the ECE of many such draws is computed. An
    observed ECE below the quantile gives no reason to doubt the confidences.

    A state without blocks, and predictions, are taken as independent examples. Where they are not
    (tokens of a sentence), chance explains more: pass a state with a leading axis of blocks that
    keep such examples together. Its gaps then get a random normal factor per block (a wild
    bootstrap; Cameron, Gelbach & Miller 2008), widened like Student's t for few blocks; the larger
    result of the two is returned. Right answers of weighted examples are not binomial, so with
    sample weights the blocks alone decide; a weighted state needs them. One block says as much as
    one example.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.7, 0.3]] * 100, [0] * 70 + [1] * 30)
    >>> expected, upper = chance_ece(p)
    >>> round(expected, 2), round(upper, 2)
    (0.04, 0.09)
    """
    if isinstance(source, (Predictions, Claims)) and source.weighted:
        options: dict[str, Any] = {"block": assign_blocks(source), "blocks": 1000}
        source = accumulate(source, classwise=False, **options)
    draws = _GapDraws(state_of(source), replicates, seed)
    if not draws.n:
        return float("nan"), float("nan")
    drawn = draws.calibrated()
    means, uppers = zip(*((e.mean(), np.quantile(e, quantile)) for e in drawn), strict=True)
    return float(max(means)), float(max(uppers))


def ece_p_value(state: CalibrationState, *, replicates: int = 1000, seed: int = 0) -> float:
    """Return how often a calibrated model shows an ECE like this one's; see :func:`chance_ece`.

    The state itself counts as one more draw, so the p-value is never 0 (Phipson & Smyth 2010).

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate
    >>> p = Predictions.from_probabilities([[0.9, 0.1]] * 100, [0] * 70 + [1] * 30)
    >>> ece_p_value(accumulate(p)) < 0.01
    True
    """
    draws = _GapDraws(state, replicates, seed)
    if not draws.n:
        return 1.0
    # Sums in another order differ in their last digits.
    observed = np.abs(draws.gap).sum() / draws.n * (1 - 1e-12)
    return float(max((1 + (e >= observed).sum()) / (1 + replicates) for e in draws.calibrated()))


def least_ece(
    state: CalibrationState, *, level: float = 0.95, replicates: int = 1000, seed: int = 0
) -> float:
    """Return the lower end of the interval of the ECE: the least that explains the one observed.

    It inverts the test of :func:`chance_ece`. Let the true gaps of the bins be those observed, each
    moved towards 0 by c standard errors and stopped there. With c = 0 the true ECE is the one
    observed; with c large enough it is 0. The lower end is the ECE of the largest c whose draws
    still reach the observed ECE at their quantile (1 + level) / 2; 0 where those of a calibrated
    model do. No ECE is smaller than the gap of all bins together, so it is at least the lower end
    of that gap, whose draws need fewer examples. Blocks are used as in :func:`chance_ece`.

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate
    >>> p = Predictions.from_probabilities([[0.9, 0.1]] * 100, [0] * 70 + [1] * 30)
    >>> round(least_ece(accumulate(p)), 2)  # of 0.2
    0.11
    """
    draws = _GapDraws(state, max(100, min(replicates, _DRAWN // len(state.bins.edges()))), seed)
    observed, upper = np.abs(draws.gap).sum(), (1 + level) / 2

    def explains(off_by: np.ndarray) -> bool:
        drawn = draws.around(off_by)
        return any(np.quantile(np.abs(gaps).sum(axis=1), upper) >= observed for gaps in drawn)

    least = np.abs(_least(draws.gap, draws.deviation, explains)).sum()
    chance = max(
        np.quantile(np.abs((gaps - centre).sum(axis=1)), upper)
        for centre in (0 * draws.gap, draws.gap)
        for gaps in draws.around(centre)
    )
    return float(max(least, abs(draws.gap.sum()) - chance) / (draws.n or 1))


def _least(gap: np.ndarray, deviation: np.ndarray, explains: Callable[..., bool]) -> np.ndarray:
    """Return the gaps, moved as far towards 0 as still ``explains`` what was observed."""

    def moved(errors: float) -> np.ndarray:
        return np.asarray(np.sign(gap) * np.maximum(np.abs(gap) - errors * deviation, 0))

    near, far = 0.0, float(np.max(np.abs(gap) / np.maximum(deviation, 1e-300), initial=0.0))
    if explains(moved(far)):
        return 0 * gap
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if explains(moved(middle)) else (near, middle)
    return moved(near)


class _GapDraws:
    """Draws of confidence minus right answers, summed in each bin, of models like the observed."""

    def __init__(self, state: CalibrationState, replicates: int, seed: int) -> None:
        total = state.total()
        self.count, self.confidence = total.top_count, total.top_confidence
        self.n = self.count.sum().item()
        self._binomial_draws = not state.weighted
        self.gap = np.asarray(self.confidence - total.top_correct, np.float64)
        self._shape, self._seed = (replicates, len(self.count)), seed
        variance = np.zeros(len(self.count))
        if self._binomial_draws:
            sums = (self.confidence, total.top_correct)
            variance = np.maximum(*(self._binomial(right) for right in sums))
        self._scaled: tuple[np.ndarray, np.ndarray] | None = None
        used = np.atleast_1d(state.n) > 0
        if np.ndim(state.n) and used.sum() > 1:
            counts = state.top_count[used]
            gaps = np.asarray(state.top_confidence - state.top_correct)[used]
            number = float(effective_number(counts.sum(axis=-1)))
            factors = _factors((replicates, len(gaps)), number, seed)
            self._scaled = factors @ gaps, factors @ counts
            variance = np.maximum(variance, np.square(gaps).sum(axis=0))
        elif state.weighted and self.n and np.ndim(state.n):
            share = self._share(0 * self.gap)
            variance = np.square(self.count) * share * (1 - share)
        elif state.weighted and self.n:
            raise InputError(
                "Chance needs at least two blocks of weighted examples: accumulate(p, "
                "block=assign_blocks(p), blocks=1000)."
            )
        self.deviation = np.sqrt(variance)

    def around(self, gap: np.ndarray) -> list[np.ndarray]:
        """Return (replicates, bins) draws of models whose true sums of gaps are ``gap``.

        Right answers are binomial. Of blocks, what their gaps have beyond ``gap`` is scaled by
        their factors.
        """
        off_by, drawn = gap / np.where(self.count > 0, self.count, 1), []
        random = np.random.default_rng(self._seed)
        if self._binomial_draws:
            right = random.binomial(self.count, self._share(off_by), self._shape)
            drawn.append(np.asarray(self.confidence - right))
        if self._scaled is not None:
            gaps, counts = self._scaled
            # No bin is off by more than all wrong or all right.
            most = self.confidence - self.count, self.confidence
            drawn.append(np.clip(gap + gaps - counts * off_by, *most))
        if not drawn:  # Weights in one block: as one example, all right or all wrong together.
            right = self.count * (random.random((self._shape[0], 1)) < self._share(off_by))
            drawn.append(np.asarray(self.confidence - right))
        return drawn

    def calibrated(self) -> list[np.ndarray]:
        """Return the ECE of each draw of a calibrated model."""
        return [np.abs(gaps).sum(axis=1) / self.n for gaps in self.around(0 * self.gap)]

    def _share(self, off_by: np.ndarray) -> np.ndarray:
        """Return how often answers are right where confidences are too high by ``off_by``."""
        count = np.where(self.count > 0, self.count, 1)
        return np.asarray(np.clip(self.confidence / count - off_by, 0, 1))

    def _binomial(self, right: np.ndarray) -> np.ndarray:
        """Return the variance of a number of right answers."""
        return np.asarray(right * np.maximum(1 - right / np.maximum(self.count, 1), 0))


def _factors(shape: tuple[int, int], number: float, seed: int) -> np.ndarray:
    """Return normal factors of blocks, widened like Student's t where few decide.

    ``number`` is the effective one: of a hundred blocks three may hold nearly all examples.
    """
    widened = student_quantile(max(1.0, number - 1)) / NormalDist().inv_cdf(0.975)
    return np.random.default_rng([seed, 1]).normal(0, widened, shape)
