"""The ECE that a perfectly calibrated model shows by chance at this sample size."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from calibrant.distributions import student_quantile
from calibrant.metrics.binned import Source, state_of
from calibrant.metrics.state import CalibrationState

__all__ = ["chance_ece"]


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
    result of the two is returned.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.7, 0.3]] * 100, [0] * 70 + [1] * 30)
    >>> expected, upper = chance_ece(p)
    >>> round(expected, 2), round(upper, 2)
    (0.04, 0.09)
    """
    state = state_of(source)
    total, random = state.total(), np.random.default_rng(seed)
    count, confidence = total.top_count, total.top_confidence
    if not total.n:
        return float("nan"), float("nan")
    share = np.clip(confidence / np.maximum(count, 1), 0, 1)
    right = random.binomial(count, share, (replicates, len(count)))
    drawn = [np.abs(right - confidence).sum(axis=1) / count.sum()]
    if np.ndim(state.n):
        drawn += _over_blocks(state, replicates, random)
    means, uppers = zip(*((e.mean(), np.quantile(e, quantile)) for e in drawn), strict=True)
    return float(max(means)), float(max(uppers))


def _over_blocks(
    state: CalibrationState, replicates: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Return the ECE of draws that scale or flip the gaps of blocks; none without two blocks."""
    used = state.n > 0
    blocks = int(used.sum())
    if blocks < 2:
        return []
    gap = (state.top_correct - state.top_confidence)[used]
    widened = student_quantile(blocks - 1) / NormalDist().inv_cdf(0.975)
    factors = random.normal(0, widened, (replicates, blocks))
    return [np.abs(factors @ gap).sum(axis=1) / state.n.sum()]
