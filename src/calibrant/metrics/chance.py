"""What ECE a perfectly calibrated model would show at this sample size, by chance alone."""

from __future__ import annotations

import numpy as np

from calibrant.metrics.state import CalibrationState

__all__ = ["chance_ece"]


def chance_ece(
    state: CalibrationState, *, replicates: int = 1000, quantile: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Mean and upper quantile of the ECE of a calibrated model with the same confidences.

    ECE is an average of absolute values, so it is never 0 on a finite sample. Here the number of
    right answers of each bin is drawn from Binomial(n_b, conf_b), as it would be if every
    confidence were honest (Bröcker & Smith 2007), and the ECE of many such draws is looked at. An
    observed ECE below the quantile gives no reason to doubt the confidences. Examples are taken
    as independent; where they are not (tokens of a sentence), chance explains more than this says.

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate
    >>> p = Predictions.from_probabilities([[0.7, 0.3]] * 100, [0] * 70 + [1] * 30)
    >>> expected, upper = chance_ece(accumulate(p))
    >>> round(expected, 2), round(upper, 2)
    (0.04, 0.09)
    """
    count = state.top_count[state.top_count > 0]
    confidence = state.top_confidence[state.top_count > 0]
    if not len(count):
        return float("nan"), float("nan")
    share = np.clip(confidence / count, 0, 1)
    right = np.random.default_rng(seed).binomial(count, share, (replicates, len(count)))
    errors = np.abs(right - confidence).sum(axis=1) / count.sum()
    return float(errors.mean()), float(np.quantile(errors, quantile))
