"""Where labels arrive: bounds of the accuracy, and a test of honesty, valid after every label."""

from __future__ import annotations

import math

import numpy as np

from calibrant.watching.drift_test import spread_anew

__all__ = ["AccuracyBounds", "HonestyTest"]

_POINTS = 2000  # Accuracies that are tried; they are closer together near 0 and 1.
_MOST_BET = 0.75  # Of the capital that a bet may lose.
_BLOCK = 512
_SHIFTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # Of the log-odds, in both directions.
_STEP = 64  # Units after which capital moves between bets.
_CERTAIN = 1e-6


class AccuracyBounds:
    """A confidence sequence for the mean of values in [0, 1], by betting.

    For each candidate m two bettors, one on more and one on less than m, bet on every value:
    K⁺(m) = Π (1 + λ⁺ (x − m)) and K⁻(m) = Π (1 − λ⁻ (x − m)), with predictable plug-in bets
    λ = √(2 log(2/α) / (σ̂² t log(1 + t))), cut to 0.75/m and 0.75/(1 − m). Candidates on which
    max(K⁺, K⁻)/2 ever reached 1/α are out (Waudby-Smith & Ramdas 2024, hedged capital). If the mean
    given the past is always the same, it is inside of all bounds at once with probability 1 − α.

    >>> bounds = AccuracyBounds(0.95)
    >>> bounds.low, bounds.high
    (0.0, 1.0)
    >>> bounds.add(np.random.default_rng(0).random(2000) < 0.9)
    >>> round(bounds.low, 3), round(bounds.high, 3)
    (0.86, 0.92)
    """

    def __init__(self, level: float) -> None:
        self.level = level
        self.n = 0
        self.total = self._squares = 0.0
        self._points = np.sin(np.linspace(0, math.pi / 2, _POINTS + 1)) ** 2
        self._log_up = np.zeros(len(self._points))
        self._log_down = np.zeros(len(self._points))

    def add(self, values: np.ndarray) -> None:
        """Take values in the order in which they arrived."""
        values = np.asarray(values, np.float64)
        for start in range(0, len(values), _BLOCK):
            self._add(values[start : start + _BLOCK])

    def _add(self, values: np.ndarray) -> None:
        bets = self._bets(values)[:, None]
        m = self._points
        with np.errstate(divide="ignore"):
            up = np.minimum(bets, _MOST_BET / m) * (values[:, None] - m)
            down = np.minimum(bets, _MOST_BET / (1 - m)) * (m - values[:, None])
        # The largest capital after any of the values decides, not only that after the last.
        up = self._log_up + np.cumsum(np.log1p(up), axis=0)
        down = self._log_down + np.cumsum(np.log1p(down), axis=0)
        most = np.maximum(up, down).max(axis=0)
        kept = most - math.log(2) < math.log(1 / (1 - self.level))
        if kept.any():  # An accuracy that changes may leave none: the last bounds stay.
            first, last = (int(i) for i in np.flatnonzero(kept)[[0, -1]])
            inside = slice(max(first - 1, 0), last + 2)  # Beyond the last ones that are tried.
            self._points = m[inside]
            self._log_up, self._log_down = up[-1, inside], down[-1, inside]

    def _bets(self, values: np.ndarray) -> np.ndarray:
        """Return the size of each bet, from the values before it."""
        t = self.n + 1 + np.arange(len(values))
        means = (0.5 + self.total + np.cumsum(values)) / (t + 1)
        squares = 0.25 + self._squares + np.cumsum((values - means) ** 2)
        before = np.concatenate([[0.25 + self._squares], squares[:-1]]) / t
        self.n += len(values)
        self.total += float(values.sum())
        self._squares = float(squares[-1]) - 0.25
        return np.sqrt(2 * math.log(2 / (1 - self.level)) / (before * t * np.log1p(t)))

    @property
    def mean(self) -> float:
        """The mean of the values; NaN without any."""
        return self.total / self.n if self.n else math.nan

    @property
    def low(self) -> float:
        """The lower bound."""
        return float(self._points[0])

    @property
    def high(self) -> float:
        """The upper bound."""
        return float(self._points[-1])


class HonestyTest:
    """The capital of a bettor against "a confidence of c is right with probability c".

    Each bet says that the log-odds are really higher or lower by δ: it multiplies the capital by
    p/c if the prediction is right and by (1 − p)/(1 − c) if it is wrong, with p = σ(logit c + δ).
    The mean of the factors is 1 if c is honest, so the capital reaches 1/α with a probability of at
    most α, at any time. Of a sentence the mean of its words' factors counts, because they depend on
    each other. Half of the capital stays out at first, and a share moves as in
    :class:`~calibrant.watching.drift_test.DriftTest`.

    >>> test, random = HonestyTest(), np.random.default_rng(0)
    >>> c = random.uniform(0.6, 1, 2000)
    >>> test.add(c, random.random(2000) < c, np.arange(2000))
    >>> test.value < 20
    True
    >>> test.add(c, random.random(2000) < c - 0.1, np.arange(2000))
    >>> test.value > 1000
    True
    """

    def __init__(self) -> None:
        bets = 2 * len(_SHIFTS)
        self._log_prior = np.log([0.5, *[0.5 / bets] * bets])
        self._log_capital = self._log_prior.copy()
        self.largest = 0.0
        self._waiting = self._steps = 0

    def add(self, confidence: np.ndarray, correct: np.ndarray, unit: np.ndarray) -> None:
        """Bet on labelled predictions; ``unit`` numbers those that depend on each other."""
        if not len(confidence):
            return
        growth, start = _log_factors(confidence, correct, unit), 0
        while start < growth.shape[1]:
            part = growth[:, start : start + _STEP - self._waiting]
            paths = self._log_capital[:, None] + np.cumsum(part, axis=1)
            self.largest = max(self.largest, float(np.logaddexp.reduce(paths, axis=0).max()))
            self._log_capital = paths[:, -1]
            start += part.shape[1]
            self._waiting += part.shape[1]
            if self._waiting == _STEP:
                self._waiting, self._steps = 0, self._steps + 1
                self._log_capital = spread_anew(self._log_capital, self._log_prior, self._steps)

    @property
    def log_value(self) -> float:
        """The logarithm of the capital."""
        return float(np.logaddexp.reduce(self._log_capital))

    @property
    def value(self) -> float:
        """The capital: the evidence against honest confidences, 1 at the start."""
        return math.exp(min(self.log_value, 700.0))


def _log_factors(confidence: np.ndarray, correct: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return the logarithm of what each bet, the first of which is none, gains on each unit."""
    c = np.clip(confidence, _CERTAIN, 1 - _CERTAIN)
    odds = np.log(c) - np.log1p(-c)
    starts = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    sizes = np.diff(np.r_[starts, len(unit)])
    steps = [np.zeros(len(starts))]
    for delta in (*_SHIFTS, *(-shift for shift in _SHIFTS)):
        p = 1 / (1 + np.exp(-(odds + delta)))
        factor = np.where(correct, p / c, (1 - p) / (1 - c))
        # There is nothing to win beyond 0 and 1.
        factor = np.where((confidence != c) & ((delta > 0) == (c > 0.5)), 1.0, factor)
        steps.append(np.log(np.add.reduceat(factor, starts) / sizes))
    return np.stack(steps)
