"""The searches of fits, whose sums come from passes over all parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from calibrant.calibrators.base import CalibrationWarning, Calibrator, Fit
from calibrant.calibrators.curvature import Inverse, inverse_curvature
from calibrant.calibrators.faultless import most_supported
from calibrant.calibrators.likelihood import as_kind
from calibrant.calibrators.linear import Penalty, start_of_search, warn_unless_converged
from calibrant.calibrators.matrix import Dirichlet, Matrix, Vector
from calibrant.calibrators.minimize import minimize
from calibrant.calibrators.moments import Moments
from calibrant.calibrators.newton import Optimum, best_inverse_temperature, solve
from calibrant.calibrators.scalar import OneVsRest, TopLabel, stacked
from calibrant.calibrators.structured import StructuredMatrix, StructuredVector
from calibrant.calibrators.temperature import warn_if_unbounded
from calibrant.distributed.passes import Answer, Ask
from calibrant.distributed.questions import (
    Doubt,
    Flat,
    Form,
    LinearSums,
    ScoreCurves,
    TemperatureSums,
    features,
)
from calibrant.distributed.views import View
from calibrant.errors import InputError
from calibrant.metrics.sketch import BINS
from calibrant.predictions import Predictions

__all__ = ["FORMS", "Surveyed", "fit_curves", "fit_rows", "fit_temperature"]

# The calibrators that weigh classes, and what they make of the scores first.
FORMS: dict[type[Calibrator], Form] = {
    Vector: "centred",
    Matrix: "centred",
    Dirichlet: "log-softmax",
    StructuredVector: "tempered",
    StructuredMatrix: "tempered",
}
_MOST_CURVES = 128  # Of 65,536 bins each: 20 MB as long as no bin is empty.
_SLOPE = 1e-9  # Where a search ends: parameters are then exact to six digits.


class Surveyed(Protocol):
    """What a search needs to know of the rows."""

    @property
    def sample(self) -> Predictions:
        """Some rows, for the start and the curvature."""
        ...

    @property
    def size(self) -> float:
        """The number of rows, or the sum of their weights."""
        ...

    @property
    def decided(self) -> tuple[float, float]:
        """The number of rows with one highest score, and the sum of their weights."""
        ...


class _Sweep:
    """The moments at one inverse temperature after the other, each by one pass."""

    nll_at_one: float

    def __init__(self, ask: Ask, view: View, size: float) -> None:
        self.ask, self.view, self.size, self.passes = ask, view, size, 0

    def __call__(self, beta: float) -> Moments:
        found = self.ask(TemperatureSums(self.view, beta, self.passes == 0))
        nll, first, second, third, at_one = map(float, found["sum:moments"] / self.size)
        if self.passes == 0:
            self.nll_at_one = at_one
        self.passes += 1
        spread, wrong = float(-found["min:lowest"][0]), int(found["sum:wrong"][0])
        return Moments(nll, first, second, third, spread, wrong)


def _best(ask: Ask, view: View, known: Surveyed) -> Optimum:
    """Return the inverse temperature with the least NLL; the search starts at the sample's."""
    sample = as_kind("logits", known.sample, view.floor)
    start = best_inverse_temperature(sample.scores, sample.labels, weights=sample.weights).beta
    sweep: Any = _Sweep(ask, view, known.size)
    return solve(sweep, start)


def fit_temperature(
    ask: Ask, view: View, known: Surveyed, warn: Callable[[str], None], *, claims: bool = False
) -> Fit:
    """Fit the temperature, as :class:`~calibrant.calibrators.Temperature` does in memory."""
    best = _best(ask, view, known)
    if not best.at.wrong and best.at.spread:

        def doubt(beta: float) -> float:
            total, size = ask(Doubt(view, beta))["sum:doubt"]
            return float(total / size)

        beta = most_supported(best, known.decided[1], doubt)
        moments = ask(TemperatureSums(view, beta, False))["sum:moments"]
        best = replace(best, beta=beta, nll=float(moments[0]) / known.size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        warn_if_unbounded(best, lambda: int(known.decided[0]), claims)
    for found in caught:
        warn(str(found.message))
    beta = 1.0 if best.at.spread == 0 else best.beta
    return Fit({"temperature_": 1 / beta}, best.nll_at_one, best.nll)


def fit_rows(
    ask: Ask, calibrator: Any, view: View, known: Surveyed, warn: Callable[[str], None]
) -> Fit:
    """Fit weights and intercepts of the classes; each step of the search is one pass."""
    form, best = FORMS[type(calibrator)], _best(ask, view, known)
    beta = 1.0 if best.at.spread == 0 and form == "tempered" else best.beta
    sample = as_kind("logits", known.sample, view.floor)
    penalty: Penalty = calibrator.checked_penalty(known.size, sample.classes)
    x = features(sample.scores, form, beta)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights, intercepts = penalty.unpacked(theta)
        found = ask(LinearSums(view, form, beta, Flat.of(weights), Flat.of(intercepts)))
        pull, *pulls = penalty(weights, intercepts)
        slopes = [found[f"sum:{k}"] / known.size + p for k, p in zip("wb", pulls, strict=True)]
        value = float(found["sum:nll"][0]) / known.size + pull
        return value, np.concatenate([slope.ravel() for slope in slopes])

    def curvature(theta: np.ndarray) -> Inverse:
        both = penalty.unpacked(theta)
        return inverse_curvature(x, *both, penalty.pull, penalty.intercept_pull)

    start = start_of_search(x, sample, penalty)
    end = minimize(objective, start, tolerance=_SLOPE, curvature=curvature, curvatures=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        warn_unless_converged(end)
    for each in caught:
        warn(str(each.message))
    weights, intercepts = penalty.without_common_change(*penalty.unpacked(end.x))
    nll = end.value - penalty(weights, intercepts)[0]
    learned: dict[str, Any] = {"weights_": weights, "intercepts_": intercepts}
    if form == "tempered":
        learned["temperature_"] = 1 / beta
    else:
        learned["weights_"] = beta * weights
    return Fit(learned, None, nll)


def fit_curves(ask: Ask, calibrator: OneVsRest | TopLabel, view: View, known: Surveyed) -> Fit:
    """Fit the curves of one number from counts in bins of log-odds, which one pass makes."""
    check_curves(calibrator, known.sample.classes)
    by_logit, top = calibrator.takes == "logits", isinstance(calibrator, TopLabel)
    found = ask(ScoreCurves(view, by_logit, top, bool(calibrator.claims_)))
    classes = known.sample.classes
    curves = 1 if top or classes == 2 else classes
    scalar: Any = calibrator._scalar()
    if not top:
        scalar.others = classes - 1
    pairs = [_pairs(found, c, apart=by_logit) for c in range(curves)]
    return Fit(stacked([scalar.fit(*each) for each in pairs]))


def check_curves(calibrator: Calibrator, classes: int) -> None:
    """Refuse a curve for each of very many classes: their bins would fill the memory."""
    if isinstance(calibrator, OneVsRest) and classes > _MOST_CURVES:
        raise InputError(
            f"{calibrator.name} learns a curve for each of {classes:,} classes; on a cluster it "
            f"takes up to {_MOST_CURVES}. Calibrators that end in -top-label learn one for all."
        )


def _pairs(found: Answer, curve: int, *, apart: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, whether the event happened, and weights: two rows of each bin of a curve.

    ``apart`` gives events and others their own mean score; curves of ranks need one for both.
    """
    own = found["cell:place"] // BINS == curve
    count, hits = found["cell:count"][own], found["cell:hits"][own]
    score, hit_score = found["cell:score"][own], found["cell:hit_score"][own]
    misses, both = count - hits, (score / count,) * 2
    if apart:
        parts = ((hit_score, hits), (score - hit_score, misses))
        both = tuple(np.divide(s, n, out=np.zeros_like(s), where=n > 0) for s, n in parts)
    scores, weights = np.concatenate(both), np.concatenate([hits, misses])
    happened = np.arange(len(scores)) < len(hits)
    used = weights > 0
    return scores[used], happened[used], weights[used]
