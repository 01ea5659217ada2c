"""What a diagram of predictions shows: bins with accuracy and interval, and the risk curve."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias, cast

import numpy as np

from calibrant.arguments import check_kind
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics import CalibrationState, Confidences, accumulate, bin_confidences
from calibrant.metrics.selective import RiskCoverage, risk_coverage_curve
from calibrant.metrics.sorted_confidences import StepSource
from calibrant.predictions import Predictions

__all__ = [
    "DiagramSource", "ReliabilityCurve", "class_curve", "diagram_state", "reliability_curve",
    "thinned_curve", "wilson_interval", "worst_classes",
]  # fmt: skip


DiagramSource: TypeAlias = CalibrationState | Predictions | Confidences


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """One entry per bin; accuracy, confidence and interval are NaN where a bin is empty."""

    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    accuracy: np.ndarray
    confidence: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Confidence − accuracy; positive is overconfident."""
        return np.asarray(self.confidence - self.accuracy)

    @property
    def middle(self) -> np.ndarray:
        """The middle of each bin."""
        return np.asarray((self.lower + self.upper) / 2)

    @property
    def inset(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides of the bars: the bins minus slivers that separate neighbours."""
        sliver = 0.04 * (self.upper - self.lower)
        return self.lower + sliver, self.upper - sliver

    @property
    def filled(self) -> np.ndarray:
        """The numbers of the bins that hold examples."""
        return np.asarray(np.flatnonzero(self.count))


def reliability_curve(state: CalibrationState, level: float = 0.95) -> ReliabilityCurve:
    """Return the curve of the top-label confidence.

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> reliability_curve(accumulate(p, bins=5)).accuracy
    array([nan, nan, nan,  0.,  1.])
    """
    _single(state)
    return _curve(state, state.top_count, state.top_confidence, state.top_correct, level)


def class_curve(state: CalibrationState, label: int, level: float = 0.95) -> ReliabilityCurve:
    """Return the curve of p_k of one class against the share of examples labelled k."""
    _single(state)
    _classwise(state)
    tables = (state.class_count, state.class_confidence, state.class_correct)
    count, confidence, correct = (table[label] for table in tables)
    return _curve(state, count, confidence, correct, level)


def worst_classes(state: CalibrationState, count: int) -> np.ndarray:
    """Return the observed classes with the largest one-against-rest ECE, worst first."""
    _single(state)
    _classwise(state)
    error = np.abs(state.class_correct - state.class_confidence).sum(axis=-1)
    order = np.argsort(-error, kind="stable")
    met = (state.label_count + state.predicted_count)[order] > 0
    return np.asarray(order[met][:count])


def wilson_interval(
    successes: np.ndarray, trials: np.ndarray, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's (1927) score interval: the p with abs(p̂ − p) ≤ z sqrt(p (1 − p) / n).

    It stays within [0, 1] and is right near 0 and 1, where the textbook p̂ ± z·sd collapses to a
    point. It assumes independent examples: for tokens of one sentence it is too narrow, and
    you should quote the bootstrap by sentence. It is NaN without trials.

    >>> low, high = wilson_interval(np.array([10]), np.array([10]))
    >>> low.round(3), high
    (array([0.722]), array([1.]))
    """
    if not 0 < level < 1:
        raise InputError(f"wilson_interval expects a level between 0 and 1, got {level}.")
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = successes / trials
        centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
        spread = np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    half = z * spread / (1 + z**2 / np.maximum(trials, 1))
    # Exact at the ends: rounding leaves 1e-17, which would print as −0.
    low = np.where(successes == 0, 0.0 * share, centre - half)
    high = np.where(successes == trials, share, centre + half)
    return low, high


def thinned_curve(source: StepSource, most: int = 500) -> RiskCoverage:
    """Return the risk–coverage curve at up to ``most`` steps, evenly spread in coverage.

    It always includes the first and the last step, and every step belongs to the whole curve.

    >>> thinned_curve(Confidences([0.9, 0.8, 0.7, 0.6], [True] * 4), most=2).coverage
    array([0.25, 1.  ])
    """
    curve = risk_coverage_curve(source)
    if len(curve.risk) <= most:
        return curve
    wanted = np.linspace(curve.coverage[0], 1, most)
    kept = np.unique(np.searchsorted(curve.coverage, wanted - 1e-12))
    return RiskCoverage(curve.threshold[kept], curve.coverage[kept], curve.risk[kept])


def _curve(
    state: CalibrationState,
    count: np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    level: float,
) -> ReliabilityCurve:
    edges = state.bins.edges()
    low, high = wilson_interval(correct, count, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy, mean = correct / count, confidence / count
    return ReliabilityCurve(edges[:-1], edges[1:], count, accuracy, mean, low, high)


def diagram_state(who: str, source: Any) -> CalibrationState:
    """Return the state that a diagram draws, computed if predictions or confidences are given."""
    if isinstance(source, Confidences):
        return bin_confidences(source)
    if isinstance(source, (Predictions, Claims)):
        return accumulate(source)
    check_kind(who, source, Predictions, Claims, CalibrationState, Confidences)
    _single(source)
    return cast(CalibrationState, source)


def _single(state: CalibrationState) -> None:
    check_kind("A diagram", state, CalibrationState)
    if np.ndim(state.n):
        raise InputError(
            f"A diagram draws one state, got {np.shape(state.n)} of them; add them: state.total()."
        )


def _classwise(state: CalibrationState) -> None:
    if not state.classwise:
        raise InputError("A classwise diagram needs a state accumulated with classwise=True.")
