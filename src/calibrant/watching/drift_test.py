"""A test of drift that may be looked at after every example: a conformal test martingale.

The reference and the stream are one sequence. Without drift its order means nothing, and then the
rank of each new value among all values so far, ties broken at random, is uniform and independent
of the ranks before it (Vovk, Nouretdinov, Gammerman 2003). So betting on it cannot win: the
capital of a bettor who starts with 1 reaches 1/α with a probability of at most α, however long the
stream is and whenever one looks (Ville 1939). This is also exact for a finite reference.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["DriftTest", "log_odds_place", "spread_anew"]

_STEP = 256  # Units after which capital moves between bets; ranks are found for as many at once.
_CELLS = 80  # Of the unit interval: a bet is a density that is constant in each.
_LOCAL = ((5, 1.1), (5, 1.4), (20, 1.4), (20, 2.0), (80, 2.0))  # Parts, and by what they grow.
_TILTS = (0.05, 0.1, 0.2, 0.5, 0.95)
_BENDS = (0.25, 0.5)
# Fixed in advance, because the places of a bet must not depend on the data.
_LEAST, _MOST, _PER_UNIT = -12, 40, 20


def log_odds_place(confidence: np.ndarray) -> np.ndarray:
    """Return the number of each confidence's cell on a fixed grid of log-odds, twenty per unit.

    >>> log_odds_place(np.array([0.0, 0.5, 1.0]))
    array([   0,  240, 1039])
    """
    with np.errstate(divide="ignore"):
        odds = np.log(confidence) - np.log1p(-np.minimum(confidence, 1.0))
    place = np.floor((odds - _LEAST) * _PER_UNIT)
    return np.asarray(np.clip(place, 0, (_MOST - _LEAST) * _PER_UNIT - 1), np.int64)


class DriftTest:
    """The capital of a bettor on the ranks of whole numbers below ``places``.

    Half of the capital stays out at first; the rest is spread over bets on higher, lower, more
    spread or more central values, and on single parts of the interval that become more or less
    frequent. Every 256 units a share 1/t of all capital is redistributed, so that a late change is
    still found. That mixture is also a martingale.

    >>> random = np.random.default_rng(0)
    >>> test = DriftTest(1000)
    >>> test.learn(random.integers(0, 900, 2000))
    >>> test.add(random.integers(0, 900, 5000))
    >>> test.value < 20
    True
    >>> test.add(random.integers(100, 1000, 2000))
    >>> test.value > 1000
    True
    """

    def __init__(self, places: int, seed: int = 0) -> None:
        self.counts = np.zeros(places, np.int64)
        self.random = np.random.default_rng(seed)
        self.units = 0
        self.steps = 0
        self.largest = 0.0  # The largest logarithm of the capital so far.
        self._waiting = 0  # Units since the last step.
        self._log_bets, self._log_prior = _bets()
        self._log_capital = self._log_prior.copy()

    def learn(self, places: np.ndarray) -> None:
        """Take values of the reference, without bets on them."""
        self.counts += np.bincount(places, minlength=len(self.counts))

    def add(self, places: np.ndarray) -> None:
        """Bet on the values of the stream, in their order."""
        start = 0
        while start < len(places):
            part = places[start : start + _STEP - self._waiting]
            self._bet(self._ranks(part))
            start += len(part)

    @property
    def log_value(self) -> float:
        """The logarithm of the capital."""
        top = float(self._log_capital.max())
        return top + math.log(float(np.exp(self._log_capital - top).sum()))

    @property
    def value(self) -> float:
        """The capital: the evidence against "no drift", 1 at the start."""
        return math.exp(min(self.log_value, 700.0))

    def _ranks(self, part: np.ndarray) -> np.ndarray:
        """Return (less + u · equal) / n among all values so far, u uniform; equal counts itself."""
        before = np.tril(np.ones((len(part), len(part)), bool), -1)
        less = ((part < part[:, None]) & before).sum(axis=1)
        equal = ((part == part[:, None]) & before).sum(axis=1) + 1
        seen, below = int(self.counts.sum()), np.cumsum(self.counts) - self.counts
        less, equal = less + below[part], equal + self.counts[part]
        self.counts += np.bincount(part, minlength=len(self.counts))
        total = seen + 1 + np.arange(len(part))
        return np.asarray((less + self.random.random(len(part)) * equal) / total)

    def _bet(self, ranks: np.ndarray) -> None:
        cells = np.minimum((ranks * _CELLS).astype(np.int64), _CELLS - 1)
        self._log_capital += self._log_bets @ np.bincount(cells, minlength=_CELLS)
        self.units += len(ranks)
        self._waiting += len(ranks)
        self.largest = max(self.largest, self.log_value)
        if self._waiting == _STEP:
            self._waiting, self.steps = 0, self.steps + 1
            self._log_capital = spread_anew(self._log_capital, self._log_prior, self.steps)


def spread_anew(log_capital: np.ndarray, log_prior: np.ndarray, steps: int) -> np.ndarray:
    """Spread a share 1 / (steps + 1) of all capital as at the start; the sum stays the same.

    >>> np.exp(spread_anew(np.log([0.1, 3.9]), np.log([0.5, 0.5]), 1))
    array([1.05, 2.95])
    """
    share = 1 / (steps + 1)
    spread = math.log(share) + float(np.logaddexp.reduce(log_capital)) + log_prior
    return np.asarray(np.logaddexp(math.log1p(-share) + log_capital, spread))


def _bets() -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of the bets' densities, (bets, cells), and of their first shares."""
    middle = (np.arange(_CELLS) + 0.5) / _CELLS
    bend = 6 * middle**2 - 6 * middle + 1
    bend -= bend.mean()
    smooth = [1 + sign * size * (2 * middle - 1) for size in _TILTS for sign in (1, -1)]
    smooth += [1 + sign * size * bend for size in _BENDS for sign in (1, -1)]
    local = [
        _on_part(part, parts, factor)
        for parts, more in _LOCAL
        for factor in (more, 1 / more)
        for part in range(parts)
    ]
    densities = np.stack([np.ones(_CELLS), *smooth, *local])
    shares = [0.5, *[0.25 / len(smooth)] * len(smooth), *[0.25 / len(local)] * len(local)]
    return np.log(densities), np.log(shares)


def _on_part(part: int, parts: int, factor: float) -> np.ndarray:
    inside = np.arange(_CELLS) * parts // _CELLS == part
    share = 1 / parts
    return np.where(inside, factor, (1 - factor * share) / (1 - share))
