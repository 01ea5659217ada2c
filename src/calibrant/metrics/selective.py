"""Selective prediction: the benefit of rejecting the least confident examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.arguments import check_kind, takes_arrays
from calibrant.errors import InputError
from calibrant.metrics.sorted_confidences import StepSource, confidence_steps

__all__ = [
    "RiskCoverage",
    "RiskPoint",
    "augrc",
    "aurc",
    "auroc",
    "coverage_at_risk",
    "e_aurc",
    "risk_at_coverage",
    "risk_coverage_curve",
    "risk_points",
    "threshold_text",
]

_NOTHING = 1e-9  # No confidence is below it: from here on everything is accepted.
_TERMS = 1 << 14  # Of a long sum, added one by one.


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk–coverage curve: at each threshold, the accepted share and its risk.

    Thresholds fall, so coverage rises to 1. Examples of one confidence are accepted together.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])
    >>> curve = risk_coverage_curve(p)
    >>> curve.threshold, curve.risk.round(3)
    (array([0.9, 0.8, 0.7]), array([0.   , 0.5  , 0.333]))
    >>> round(curve.area(), 4)  # The AURC.
    0.2778
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray

    def area(self) -> float:
        """Σ_j (coverage_j − coverage_{j−1}) · risk_j: the mean risk over accepted examples."""
        if not len(self.risk):
            return float("nan")
        width = np.diff(self.coverage)
        width *= self.risk[1:]
        return float(width.sum() + self.coverage[0] * self.risk[0])


@dataclass(frozen=True)
class RiskPoint:
    """The most that can be kept at a risk, and the lowest confidence that is kept.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0])
    >>> [point] = risk_points(p, risks=[0.1])
    >>> point.coverage, point.threshold_text  # Half can be kept without a mistake.
    (0.5, '0.9')
    """

    risk: float
    coverage: float
    threshold: float | None  # None: nothing can be kept.

    @property
    def threshold_text(self) -> str:
        """Return the threshold for people."""
        return "–" if self.threshold is None else threshold_text(self.threshold)


def threshold_text(threshold: float) -> str:
    """Return a threshold with as many decimals as tell it from 0 and 1.

    >>> threshold_text(0.90450082), threshold_text(0.99999), threshold_text(2e-7)
    ('0.904501', '0.99999', '0.0000002')
    >>> threshold_text(0.0), threshold_text(2.4e-76), threshold_text(float("inf"))
    ('all', 'all', 'none')
    """
    if threshold > 1:
        return "none"
    if threshold < _NOTHING:
        return "all"
    distance = min(threshold, 1 - threshold)
    decimals = max(6, 3 - math.floor(math.log10(distance))) if distance else 0
    return f"{threshold:.{decimals}f}".rstrip("0").rstrip(".")


def risk_coverage_curve(source: StepSource) -> RiskCoverage:
    """Accept the examples with confidence ≥ t; risk is the share of wrong ones among them.

    El-Yaniv & Wiener 2010. One point per distinct confidence.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.8, 0.6], [1, 1, 0, 0])
    >>> curve = risk_coverage_curve(p)
    >>> curve.coverage, curve.risk.round(3)
    (array([0.25, 0.75, 1.  ]), array([0.   , 0.333, 0.5  ]))
    """
    s = confidence_steps(source)
    # Sums of whole numbers are exact in float64, and make room for the quotients.
    count = np.cumsum(s.count[::-1], dtype=np.float64)
    risk = (s.count - s.correct)[::-1].astype(np.float64)
    np.cumsum(risk, out=risk)
    risk /= count
    # By their own sum: weights summed in another order differ in the last digit.
    count /= count[-1:]
    return RiskCoverage(s.confidence[::-1], count, risk)


@takes_arrays
def aurc(source: StepSource) -> float:
    """Area under the risk–coverage curve: (1/n) Σ_i risk of {j: c_j ≥ c_i}.

    Geifman, Uziel & El-Yaniv 2019. Without ties this is the mean of the risks of the 1, 2, …, n
    most confident; no threshold separates ties, so all get the risk of their whole step.

    >>> from calibrant import Predictions
    >>> round(aurc(Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])), 4)
    0.2778
    """
    return risk_coverage_curve(source).area()


@takes_arrays
def e_aurc(source: StepSource) -> float:
    """Excess AURC: AURC minus that of the best ranking, which has all wrong examples last.

    It takes no sample weights: the best ranking is one of single examples.

    Geifman, Uziel & El-Yaniv 2019, who write the second term as r + (1 − r) log(1 − r), its limit
    for large n; here it is the finite sum, so a perfect ranking has exactly 0 and none has less.

    >>> from calibrant import Predictions
    >>> round(e_aurc(Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])), 4)
    0.1667
    """
    s = confidence_steps(source)
    if s.weighted:
        raise InputError(
            "e_aurc compares with the best order of single examples, which sample weights do not "
            "have; aurc and augrc take them."
        )
    if not s.n:
        return float("nan")
    right = int(s.correct.sum())
    # Σ_{i = right + 1}^{n} (i − right) / i, over n
    best = (s.n - right - right * _sum_of_inverses(right + 1, s.n)) / s.n
    return max(0.0, aurc(s) - float(best))


def _sum_of_inverses(first: int, last: int) -> float:
    """Return Σ_{i = first}^{last} 1 / i; the many beyond the first few by Euler and Maclaurin.

    Σ_{i = m + 1}^{n} 1 / i = log(n / m) + h(n) − h(m), with h(k) = 1 / 2k − 1 / 12k² + O(k⁻⁴).

    >>> abs(_sum_of_inverses(5, 200_000) - float(np.sum(1 / np.arange(5, 200_001)))) < 1e-13
    True
    """
    m = min(first - 1 + _TERMS, last)
    exact = float(np.sum(1 / np.arange(first, m + 1)))
    if m == last:
        return exact

    def correction(k: int) -> float:
        return 1 / (2 * k) - 1 / (12 * k**2)

    return exact + math.log1p((last - m) / m) + correction(last) - correction(m)


@takes_arrays
def augrc(source: StepSource) -> float:
    """Area under the generalised risk–coverage curve: ∫ P(wrong and accepted) d coverage.

    Traub et al. 2024; the mean risk of undetected mistakes, from 0 to 1/2. Between two steps the
    curve is straight: the mean over all orders of tied examples. Equal to
    (1 − AUROC) · acc · (1 − acc) + (1 − acc)² / 2.

    >>> from calibrant import Predictions
    >>> round(augrc(Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])), 4)
    0.1667
    """
    s = confidence_steps(source)
    if not s.n:
        return float("nan")
    wrong = s.count - s.correct
    # Accepted and wrong, as the threshold falls,
    twice: np.ndarray = np.cumsum(wrong[::-1], dtype=s.wide)
    twice *= 2
    twice -= wrong[::-1]  # and with those before the step.
    twice *= s.count[::-1]
    return float(np.sum(twice) / (2 * s.n**2))


@takes_arrays
def risk_at_coverage(source: StepSource, coverage: float) -> float:
    """Return the risk if at least this share is accepted, the most confident first.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])
    >>> risk_at_coverage(p, 0.5)
    0.5
    """
    check_kind("risk_at_coverage", coverage, float, int)
    if not 0 < coverage <= 1:
        raise InputError(f"risk_at_coverage expects a coverage in (0, 1], got {coverage}.")
    curve = risk_coverage_curve(source)
    if not len(curve.risk):
        return float("nan")
    # 3 · 0.1 is slightly more than 3/10: do not take one step too many for it.
    first = int(np.searchsorted(curve.coverage, coverage - 1e-12))
    return float(curve.risk[min(first, len(curve.risk) - 1)])


@takes_arrays
def coverage_at_risk(source: StepSource, risk: float) -> float:
    """Return the largest coverage with at most this risk; 0 if even the most confident err more.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])
    >>> round(coverage_at_risk(p, 0.4), 3)
    1.0
    """
    check_kind("coverage_at_risk", risk, float, int)
    if not 0 <= risk <= 1:
        raise InputError(f"coverage_at_risk expects a risk in [0, 1], got {risk}.")
    curve = risk_coverage_curve(source)
    if not len(curve.risk):
        return float("nan")
    return float(np.max(curve.coverage, initial=0.0, where=curve.risk <= risk + 1e-12))


def risk_points(
    source: StepSource, risks: Sequence[float] = (0.01, 0.02, 0.05, 0.1, 0.2)
) -> tuple[RiskPoint, ...]:
    """Return what can be kept at each risk, as :func:`coverage_at_risk`, and from which confidence.

    This describes the examples at hand. :func:`calibrant.guarantee` finds thresholds that hold for
    new ones.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, 0, 1])
    >>> risk_points(p, [0.1, 0.4])[1]
    RiskPoint(risk=0.4, coverage=1.0, threshold=0.7)
    """
    curve = risk_coverage_curve(source)
    points = []
    for risk in risks:
        kept = np.flatnonzero(curve.risk <= risk + 1e-12)
        if not len(kept):
            points.append(RiskPoint(float(risk), 0.0, None))
            continue
        last = kept[-1]  # Coverage rises along the curve.
        threshold = float(curve.threshold[last])
        points.append(RiskPoint(float(risk), float(curve.coverage[last]), threshold))
    return tuple(points)


@takes_arrays
def auroc(source: StepSource) -> float:
    """Return the chance that a right example is more confident than a wrong one; ties count half.

    The result is NaN if all are right or all are wrong.

    >>> from calibrant import Predictions
    >>> auroc(Predictions.from_probabilities([0.9, 0.8, 0.8], [1, 1, 0]))
    0.75
    """
    s = confidence_steps(source)
    wrong = s.count - s.correct
    pairs = s.correct.sum().item() * wrong.sum().item()
    if not pairs:
        return float("nan")
    # Wrong ones below the step, and half of its own.
    twice: np.ndarray = np.cumsum(wrong, dtype=s.wide)
    twice *= 2
    twice -= wrong
    twice *= s.correct
    return float(np.sum(twice) / (2 * pairs))
