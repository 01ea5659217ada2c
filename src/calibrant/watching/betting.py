"""Where labels arrive: bounds of the accuracy, and a test of honesty, valid after every label."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.watching.drift_test import spread_anew

__all__ = ["AccuracyBounds", "Excuses", "HonestyTest"]

_LAMBDAS = 0.95 * 0.75 ** np.arange(32)  # Sizes of bets: the smallest are for 10⁸ labels.
_SHIFTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # Of the log-odds, in both directions.
_SLOPES = (0.5, 0.7, 0.85, 1.2, 1.5)  # Of the log-odds: too sure, or not sure enough.
_STEP = 64  # Units after which capital moves between bets.
_CERTAIN = 1e-6
_FARTHEST, _GRID = 4.0, 0.5  # Of excuses, in standard errors.
# Lines a + b logit c, the first of which is no bet.
_BETS = np.array(
    [(0.0, 1.0)]
    + [(sign * shift, 1.0) for shift in _SHIFTS for sign in (1, -1)]
    + [(0.0, slope) for slope in _SLOPES]
)


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

    Each bet says that the log-odds are really higher or lower by δ, or b times as large: it
    multiplies the capital by p/c if the prediction is right and by (1 − p)/(1 − c) if it is wrong,
    with p = σ(logit c + δ) or p = σ(b logit c).
    The mean of the factors is 1 if c is honest, so the capital reaches 1/α with a probability of at
    most α, at any time. A sentence counts with the geometric mean of its words' factors, which
    depend on each other: its mean is at most 1 (Hölder). Half of the capital stays out at first,
    and a share moves as in :class:`~calibrant.watching.drift_test.DriftTest`.

    A calibrator that learned from few rows is a little wrong. With ``excuses``, the honest log-odds
    may be a + b logit c: J values (a, b), each the true one with probability w. The bettor plays
    against all of them and counts the least of its capitals, each divided by J w. As Σ w / (J w) is
    1, the capital reaches 1/α with a probability of at most α, on average over what was learned.

    >>> test, random = HonestyTest(), np.random.default_rng(0)
    >>> c = random.uniform(0.6, 1, 2000)
    >>> test.add(c, random.random(2000) < c, np.arange(2000))
    >>> test.value < 20
    True
    >>> test.add(c, random.random(2000) < c - 0.1, np.arange(2000))
    >>> test.value > 1000
    True
    """

    def __init__(self, excuses: Excuses | None = None) -> None:
        self._excuses = Excuses.none() if excuses is None else excuses
        bets = len(_BETS) - 1
        self._log_prior = np.log([0.5, *[0.5 / bets] * bets])
        self._log_capital = self._log_prior.copy()
        self._excused = self._excuses.log_weights.copy()
        self.largest = 0.0
        self._waiting = self._steps = 0

    def add(self, confidence: np.ndarray, correct: np.ndarray, unit: np.ndarray) -> None:
        """Bet on labelled predictions; ``unit`` numbers those that depend on each other."""
        starts = np.flatnonzero(np.r_[len(unit) > 0, unit[1:] != unit[:-1]])
        ends = np.r_[starts[1:], len(unit)]
        first = 0
        while first < len(starts):
            last = min(first + _STEP - self._waiting, len(starts))
            rows = slice(starts[first], ends[last - 1])
            self._step(confidence[rows], correct[rows], starts[first:last] - starts[first])
            first = last

    def _step(self, confidence: np.ndarray, correct: np.ndarray, starts: np.ndarray) -> None:
        """Bet on units between two moves of capital."""
        lines = self._excuses.lines
        paths = self._log_capital[:, None] + _log_factors(confidence, correct, starts, _BETS)
        excused = self._excused[:, None] + _log_factors(confidence, correct, starts, lines)
        self._log_capital, self._excused = paths[:, -1], excused[:, -1]
        capital = np.logaddexp.reduce(paths, axis=0) - excused.max(axis=0)
        self.largest = max(self.largest, float(capital.max()))
        self._waiting += len(starts)
        if self._waiting == _STEP:
            self._waiting, self._steps = 0, self._steps + 1
            self._log_capital = spread_anew(self._log_capital, self._log_prior, self._steps)

    @property
    def log_value(self) -> float:
        """The logarithm of the capital."""
        return float(np.logaddexp.reduce(self._log_capital) - self._excused.max())

    @property
    def value(self) -> float:
        """The capital: the evidence against honest confidences, at most 1 at the start."""
        return math.exp(min(self.log_value, 700.0))


@dataclass(frozen=True, eq=False)
class Excuses:
    """How the honest log-odds may differ: lines a + b logit c, with log J w of each."""

    lines: np.ndarray  # (J, 2)
    log_weights: np.ndarray

    @classmethod
    def none(cls) -> Excuses:
        """Return the excuse of confidences that are exactly honest."""
        return cls(np.array([[0.0, 1.0]]), np.zeros(1))

    @classmethod
    def of_learning(cls, confidence: np.ndarray, rows: float, inflation: float) -> Excuses:
        """Return the excuses of a calibrator learned on ``rows`` rows with such confidences.

        Intercept and slope of a logistic regression on n rows are off by chance, with the
        covariance (n / inflation · mean c (1 − c) x xᵀ + 1)⁻¹, x = (1, logit c), in which the 1
        keeps it finite. Excuses lie on a grid of half a standard error up to 4 of them. The bets
        within are excuses too: the truth must not be nearer to one of them than to any excuse.

        >>> c = np.random.default_rng(0).uniform(0.6, 1, 2000)
        >>> few, many = (Excuses.of_learning(c, n, 1.0).lines for n in (100, 10_000))
        >>> few[:, 0].max().round(1), many[:, 0].max().round(1)
        (np.float64(1.7), np.float64(0.2))
        """
        c, odds = _log_odds(confidence)
        x = np.stack([np.ones_like(odds), odds])
        information = rows / inflation * ((x * c * (1 - c)) @ x.T) / len(odds) + np.eye(2)
        root = np.linalg.cholesky(information)
        axis = np.arange(-_FARTHEST, _FARTHEST + _GRID, _GRID)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        places = np.concatenate([grid, (_BETS[1:] - [0, 1]) @ root])
        places = places[np.square(places).sum(axis=1) <= _FARTHEST**2]
        density = -np.square(places).sum(axis=1) / 2
        weights = density - np.logaddexp.reduce(density) + math.log(len(places))
        return cls(places @ np.linalg.inv(root) + [0, 1], weights)


def _log_odds(confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    c = np.clip(confidence, _CERTAIN, 1 - _CERTAIN)
    return c, np.log(c) - np.log1p(-c)


def _log_factors(
    confidence: np.ndarray, correct: np.ndarray, starts: np.ndarray, lines: np.ndarray
) -> np.ndarray:
    """Return Σ log p/c over units, for each line of log-odds: (lines, units), cumulated."""
    clipped, odds = _log_odds(confidence)
    sign = np.where(correct, 1.0, -1.0)  # p(outcome) = σ(± log-odds)
    claimed = lines[:, :1] + lines[:, 1:] * odds
    factor = np.logaddexp(0, -sign * odds) - np.logaddexp(0, -sign * claimed)
    # There is nothing to win beyond 0 and 1.
    beyond = (confidence != clipped) & ((claimed > odds) == (clipped > 0.5))
    factor = np.where(beyond, 0.0, factor)
    sizes = np.diff(np.r_[starts, len(confidence)])
    return np.asarray(np.cumsum(np.add.reduceat(factor, starts, axis=1) / sizes, axis=1))
