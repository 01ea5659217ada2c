"""The Kolmogorov–Smirnov calibration error: no bins, no bandwidth."""

from __future__ import annotations

import numpy as np

from calibrant.metrics.sorted_confidences import StepSource, steps

__all__ = ["ks_error"]


def ks_error(source: StepSource) -> float:
    """KS calibration error: max over t of abs((1/n) Σ_{i: c_i ≤ t} (a_i − c_i)).

    Gupta et al. 2021. It is the largest distance between the cumulative confidence and cumulative
    correctness along the confidence; t runs over the distinct confidences, so ties stay together.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> round(ks_error(p), 3)
    0.35
    """
    s = steps(source)
    if not s.n:
        return float("nan")
    return float(np.abs(np.cumsum(s.correct - s.count * s.confidence)).max() / s.n)
