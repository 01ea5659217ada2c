"""Where labels arrive: bounds of the accuracy, and a test of honesty, valid after every label."""

from __future__ import annotations

import math

import numpy as np

from calibrant.watching.drift_test import spread_anew

__all__ = ["AccuracyBounds", "HonestyTest"]

_LAMBDAS = 0.95 * 0.75 ** np.arange(32)  # Sizes of bets: the smallest are for 10⁸ labels.
_SHIFTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # Of the log-odds, in both directions.
_STEP = 64  # Units after which capital moves between bets.
_CERTAIN = 1e-6


class AccuracyBounds:
    """A confidence sequence for the mean of values in [0, 1] so far, which may change with time.

    Let μ_i be the mean of value i given the past, S = Σ (x_i − μ_i), and V = Σ (x_i − x̂_i)² with
    guesses x̂ from earlier values. Then exp(λS − ψ(λ)V) with ψ(λ) = −log(1 − λ) − λ has a mean of
    at most 1 for each λ in [0, 1) (empirical Bernstein; Howard, Ramdas, McAuliffe & Sekhon 2021,
    theorem 4), and so has their mixture over many λ. With probability ``level`` neither it nor its
    mirror image ever reaches 2 / (1 − level), so that at all times at once (μ_1 + … + μ_t) / t lies
    within s / t of the mean of the values, where s is where the mixture reaches that limit. No
    bounds are taken over from earlier times: they were about another mean.

    >>> bounds = AccuracyBounds(0.95)
    >>> bounds.low, bounds.high
    (0.0, 1.0)
    >>> bounds.add(np.random.default_rng(0).random(2000) < 0.9)
    >>> round(bounds.low, 3), round(bounds.high, 3)
    (0.875, 0.926)
    """

    def __init__(self, level: float) -> None:
        self.level = level
        self.n = 0
        self.total = self._squares = 0.0

    def add(self, values: np.ndarray) -> None:
        """Take values in the order in which they arrived."""
        values = np.asarray(values, np.float64)
        before = self.total + np.cumsum(values) - values
        guesses = (0.5 + before) / (self.n + 1 + np.arange(len(values)))
        self._squares += float(((values - guesses) ** 2).sum())
        self.n += len(values)
        self.total += float(values.sum())

    @property
    def mean(self) -> float:
        """The mean of the values; NaN without any."""
        return self.total / self.n if self.n else math.nan

    @property
    def low(self) -> float:
        """The lower bound."""
        return max(self.mean - self._distance(), 0.0) if self.n else 0.0

    @property
    def high(self) -> float:
        """The upper bound."""
        return min(self.mean + self._distance(), 1.0) if self.n else 1.0

    def _distance(self) -> float:
        """Return s / t: each λ bounds it, and the mixture lies within log(number) of the best."""
        cost = (-np.log1p(-_LAMBDAS) - _LAMBDAS) * self._squares
        limit = math.log(2 / (1 - self.level))
        high = float(((limit + math.log(len(_LAMBDAS)) + cost) / _LAMBDAS).min())
        low = 0.0
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            mixed = float(np.logaddexp.reduce(_LAMBDAS * middle - cost)) - math.log(len(_LAMBDAS))
            low, high = (middle, high) if mixed < limit else (low, middle)
        return high / self.n


class HonestyTest:
    """The capital of a bettor against "a confidence of c is right with probability c".

    Each bet says that the log-odds are really higher or lower by δ: it multiplies the capital by
    p/c if the prediction is right and by (1 − p)/(1 − c) if it is wrong, with p = σ(logit c + δ).
    The mean of the factors is 1 if c is honest, so the capital reaches 1/α with a probability of at
    most α, at any time. A sentence counts with the mean of its words' factors, because they depend
    on each other. Half of the capital stays out at first, and a share moves as in
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
