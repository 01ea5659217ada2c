"""BBQ: Bayesian binning into quantiles, an average of histograms with different numbers of bins."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.faultless import supported
from calibrant.calibrators.histogram import Runs, StepCurve, steps
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve
from calibrant.errors import InputError

__all__ = ["BBQ", "log_gamma"]

_PRIOR = 2.0  # N' of the paper: the prior's weight in examples, spread over the bins.
_NEGLIGIBLE = 1e-6  # Models with less posterior weight than this are not saved.


class BBQ(OneVsRest):
    """q_k = Σ_M P(M | data) · (frequency of class k in the bin of p_k under M), against the rest.

    Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning",
    AAAI 2015. M runs over equal-mass binnings with B bins; with n_b examples and m_b events in bin
    b and the prior Beta(α_b, β_b), α_b = (2/B) π_b, β_b = (2/B)(1 − π_b), π_b the bin's middle,

        P(data | M) = Π_b Γ(2/B) / Γ(n_b + 2/B) · Γ(m_b + α_b) / Γ(α_b)
        · Γ(n_b − m_b + β_b) / Γ(β_b)

    and the frequency is its posterior mean, (m_b + α_b) / (n_b + 2/B). At the ends that prior is
    nearly certain, so a bin whose n_b examples agree stays 1 / (n_b + 2) away from 0 and 1
    (:mod:`calibrant.calibrators.faultless`), which the paper does not do. The paper
    takes every B from ∛n / 10 to 10 ∛n; here at most ``models`` of them, evenly spaced in log B.

    Smoother than one histogram and without a number of bins to choose; slower to fit.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.2] * 50 + [0.9] * 50, [0] * 35 + [1] * 15 + [1] * 50)
    >>> BBQ().fit(p).transform(p).scores[[0, 99], 1].round(3)
    array([0.3  , 0.981])
    """

    name = "bbq"

    edges_: np.ndarray
    values_: np.ndarray

    def __init__(self, models: int = 30) -> None:
        self.models = models

    def _scalar(self) -> ScalarCurve:
        return _AveragedHistograms(self.models)


class _AveragedHistograms(StepCurve):
    def __init__(self, models: int) -> None:
        if models < 1:
            raise InputError(f"BBQ expects models ≥ 1, got {models}.")
        self.models = models

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        of_events = None if weights is None else weights[happened]
        every_below, events_below = _Below(scores, weights), _Below(scores[happened], of_events)
        runs = Runs(every_below.scores, every_below.weights)
        every = [runs.edges(b) for b in self._bin_counts(int(every_below.total + 1e-9))]
        models = list({edges.tobytes(): edges for edges in every}.values())  # Ties leave fewer.
        evidence, values = _posteriors(every_below, events_below, models, self.others)
        likely = np.exp(evidence - evidence.max())
        likely = np.where(likely < _NEGLIGIBLE * likely.sum(), 0, likely)
        return _average(models, values, likely / likely.sum())

    def _bin_counts(self, n: int) -> list[int]:
        root = n ** (1 / 3)
        low, high = max(1, int(root / 10)), max(1, min(int(10 * root), n))
        return sorted({int(b) for b in np.geomspace(low, high, self.models).round()})


class _Below:
    """How many of some ascending scores are at most a value, or the sum of their weights."""

    def __init__(self, scores: np.ndarray, weights: np.ndarray | None) -> None:
        order = None if weights is None else np.argsort(scores)
        self.scores = np.sort(scores) if order is None else scores[order]
        self.weights = None if weights is None else weights[order]
        self._sums = None if self.weights is None else np.append(0, np.cumsum(self.weights))
        self.total = len(scores) if self._sums is None else float(self._sums[-1])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        place = np.searchsorted(self.scores, values, side="right")
        return place if self._sums is None else self._sums[place]


def _posteriors(
    all_below: _Below, events_below: _Below, models: list[np.ndarray], others: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return log P(data | M) and the posterior mean of each bin, for all models at once.

    The inputs are all scores and those of the events. The bins of all models are stored end to end:
    with many classes a call for each model would take longer than its sums.
    """
    bins = np.array([len(edges) + 1 for edges in models])
    first = np.cumsum(bins) - bins
    right = np.concatenate([np.append(edges, np.inf) for edges in models])
    count, hits = (_steps_of(below(right), first) for below in (all_below, events_below))
    hits = np.minimum(hits, count)  # Sums of weights round.
    right = right.clip(max=1)
    middle = right - _steps_of(right, first) / 2
    prior = np.repeat(_PRIOR / bins, bins)
    # A bin at the very edge would have a prior of 0, which no example could overrule.
    alpha = prior * np.clip(middle, 1e-6, 1 - 1e-6)
    beta = prior - alpha
    evidence = (
        log_gamma(prior)
        - log_gamma(count + prior)
        + log_gamma(hits + alpha)
        - log_gamma(alpha)
        + log_gamma(count - hits + beta)
        - log_gamma(beta)
    )
    values = supported((hits + alpha) / (count + prior), count, others=others)
    return np.add.reduceat(evidence, first), np.split(values, first[1:])


def _steps_of(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Subtract from each value the one before, or 0 at the ``first`` of a model."""
    steps_up = np.diff(values, prepend=values[:1])
    steps_up[first] = values[first]
    return steps_up


def _average(
    models: list[np.ndarray], values: list[np.ndarray], weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the weighted mean of step functions, a step function with all their edges."""
    kept = [i for i, weight in enumerate(weights) if weight > 0]
    edges = np.unique(np.concatenate([models[i] for i in kept]))
    inside = np.append(edges, 1.0)  # A point in each bin: its right end belongs to it.
    if len(edges) and edges[-1] >= 1:
        inside[-1] = np.inf
    total = sum(weights[i] * values[i][np.searchsorted(models[i], inside)] for i in kept)
    return steps(edges, np.asarray(total))


def log_gamma(x: np.ndarray) -> np.ndarray:
    """Return log Γ(x) for x > 0, to about 1e-14 relative: Stirling's series after a shift by 8.

    >>> log_gamma(np.array([1.0, 5.0])).round(12) + 0.0
    array([0.        , 3.17805383])
    """
    x = np.asarray(x, np.float64)
    product = np.ones_like(x)
    for shift in range(8):  # Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7))
        product = product * np.where(x < 8, x + shift, 1.0)
    y = np.where(x < 8, x + 8, x)
    inverse = 1 / y**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680)))) / y
    # The next terms of Stirling's series, 1/1188 y⁻⁹ and less, are below 1e-11 of log Γ at y = 8.
    series = series + inverse**4 / y * (1 / 1188 - inverse * (691 / 360360))
    result: np.ndarray = (
        (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    )
    return result
