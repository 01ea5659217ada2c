"""Find the inverse temperature with the least NLL: safeguarded Newton, a few passes.

f is convex in β = 1/T, so the sign of f' shows on which side of β the optimum is: a bracket that
only shrinks. Inside it each pass proposes the root of the local quadratic model of f' (Newton with
the third derivative), or the bracket's geometric middle if the root is outside. A strided sample
gives the start, so that the whole data are swept two or three times.

The stationarity measure is |df / d log β| = β |f'(β)|, which does not change when all logits are
multiplied by a constant; it ends below 1e-8, by measurement or by the bound below. A fit whose
optimum is at infinity (every prediction right: β → ∞) stops where that measure falls below 1e-9,
at a finite β. Uninformative or worse scores (β → 0) end at the least β, where β times the
largest range of scores is 1e-3: all probabilities are equal to three digits, but not rounded to
ties, so the predicted class stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.moments import Moments, Sweep

__all__ = ["Optimum", "best_inverse_temperature", "solve"]

TOLERANCE = 1e-9  # The tolerance of β |f'(β)|.
_SAMPLE = 1 << 15  # Scores in the sample that gives the start, but at least 1024 rows.
_LARGEST_STEP = 2.0  # In log β; doubled from the fourth pass on: the optimum is far away.
_FLAT = 1e-3  # If β times the range of the scores is below this, all probabilities are equal.
_MOST_PASSES = 200


@dataclass(frozen=True)
class Optimum:
    """β and f there, f(1), the moments at the last β swept, the sweeps of the whole data."""

    beta: float
    nll: float
    nll_at_one: float
    at: Moments
    passes: int


def best_inverse_temperature(
    logits: np.ndarray, labels: np.ndarray, start: float = 1.0, weights: np.ndarray | None = None
) -> Optimum:
    """Minimise f over β > 0; with sample weights, its means are weighted.

    >>> logits = np.array([[2.0, 0.0]] * 4)
    >>> best = best_inverse_temperature(logits, np.array([0, 0, 0, 1]))
    >>> round(1 / (1 + math.exp(-2 * best.beta)), 6)  # Three of four are right.
    0.75
    """
    stride = len(labels) // max(1024, _SAMPLE // logits.shape[1])
    if stride >= 4:
        sample = np.ascontiguousarray(logits[::stride]), np.ascontiguousarray(labels[::stride])
        some = None if weights is None else weights[::stride]
        start = best_inverse_temperature(*sample, start, some).beta
    return solve(Sweep(logits, labels, weights), start)


def solve(sweep: Sweep, beta: float) -> Optimum:
    """Minimise, starting from ``beta``."""
    low, high, reach = 0.0, math.inf, _LARGEST_STEP
    here = sweep(beta)
    least = min(1.0, beta, _FLAT / here.spread) if here.spread > 0 else 1.0
    while not _is_stationary(here, beta) and sweep.passes < _MOST_PASSES:
        if here.first > 0 and beta <= least:
            break
        low, high = (beta, high) if here.first < 0 else (low, beta)
        step = max(_step(here), least - beta)
        if low < beta + step < high and _is_last(here, beta, step):
            nll = _nll_after(here, step)
            return Optimum(beta + step, nll, sweep.nll_at_one, here, sweep.passes)
        beta = max(least, _safeguarded(beta, step, low, high, reach, here.wrong == 0))
        reach *= 2 if sweep.passes > 3 else 1
        here = sweep(beta)
    return Optimum(beta, here.nll, sweep.nll_at_one, here, sweep.passes)


def _is_stationary(here: Moments, beta: float) -> bool:
    """Whether |df/d log β| is below the tolerance, and not only because β is far too small.

    Tiny scores have tiny slopes at β = 1: there the step, many times β, shows the distance.
    """
    far = here.first < 0 and beta * here.spread < _FLAT and _step(here) > beta
    return beta * abs(here.first) < TOLERANCE and not far


def _step(here: Moments) -> float:
    """Return δ with f' + f'' δ + ½ f''' δ² = 0, the root nearest 0; infinite if f'' vanishes."""
    if here.second <= 0:
        return -math.copysign(math.inf, here.first)
    newton = -here.first / here.second
    root = 1 + 2 * newton * (here.third / here.second)  # As a ratio it cannot overflow.
    return newton if root <= 0 else 2 * newton / (1 + math.sqrt(root))


def _is_last(here: Moments, beta: float, step: float) -> bool:
    """Whether |df/d log β| after the step is certainly below the tolerance.

    f'''' is a mean of fourth cumulants, each at most 1.75 R² Var for a variable of range R, and
    the variance grows by at most exp(R |δ|) on the way; Taylor's remainder of f' follows.
    """
    range_ = here.spread * abs(step)
    if range_ > 1:
        return False
    remainder = 1.75 * range_**2 * math.exp(range_) * here.second * abs(step) / 6
    return (beta + step) * remainder < TOLERANCE


def _nll_after(here: Moments, step: float) -> float:
    taylor = here.third * step**3 / 6 + here.second * step**2 / 2 + here.first * step
    return here.nll + taylor


def _safeguarded(
    beta: float, step: float, low: float, high: float, reach: float, all_right: bool
) -> float:
    """Return the next β: the proposal if it is inside the bracket and within reach, in log β."""
    if all_right:
        return 2 * beta  # No optimum exists: continue until the gradient is below the tolerance.
    reach = min(reach, 600)  # exp stays finite.
    near, far = math.exp(-reach), math.exp(reach)
    proposed = min(max(beta + step, near * beta), far * beta)
    if low < proposed < high:
        return proposed
    if low > 0 and high < math.inf:
        return math.sqrt(low * high)
    return far * beta if high == math.inf else near * beta
