"""What fits ask in each pass: the sums of a Newton step, of a gradient, of curves of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.calibrators.backend import log_odds, log_softmax
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.faultless import unclaimed, untied
from calibrant.calibrators.likelihood import mean_nll
from calibrant.calibrators.linear_pass import sum_of_nll
from calibrant.calibrators.matrix import centred
from calibrant.calibrators.moments import Sweep
from calibrant.distributed.passes import Answer, Chunk
from calibrant.distributed.views import Folded, View, rows_of
from calibrant.metrics.sketch import BINS, bin_log_odds, bin_numbers
from calibrant.predictions import Predictions

__all__ = ["After", "Doubt", "Form", "LinearSums", "ScoreCurves", "TemperatureSums", "features"]

_DENSE = 4  # Cells per entry, up to which a table of all of them pays.
Form = Literal["centred", "log-softmax", "tempered"]


@dataclass(frozen=True)
class TemperatureSums:
    """The moments of :mod:`calibrant.calibrators.moments` at one inverse temperature."""

    view: View
    beta: float
    also_at_one: bool

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = self.view.of(chunk)
        if not len(p):
            return {}
        table = Sweep(p.scores, p.labels, p.weights).table(self.beta, self.also_at_one)
        return {
            "sum:moments": table[:, :5].sum(axis=0),
            "min:lowest": table[:, 5].min(keepdims=True),
            "sum:wrong": table[:, 6].sum(keepdims=True),
        }


@dataclass(frozen=True)
class Doubt:
    """1 minus the mean confidence of rows with one highest score, at one inverse temperature."""

    view: View
    beta: float

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = self.view.of(chunk)
        return {"sum:doubt": np.array(_doubt(p, self.beta))}


def _doubt(p: Predictions, beta: float = 1.0) -> list[float]:
    """Return the sum of 1 − confidence over rows with one highest score, and their number."""
    decided = p[untied(p.scores)] if len(p) else p
    if not len(decided):
        return [0.0, 0.0]
    doubt = unclaimed(decided.scores, decided.kind, beta, decided.weights)
    return [doubt * decided.size, decided.size]


@dataclass(frozen=True)
class Flat:
    """Numbers as a value that can be compared and hashed, with the shape of their array."""

    numbers: tuple[float, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Flat:
        """Keep the numbers of an array."""
        return cls(tuple(array.ravel().tolist()), array.shape)

    def array(self) -> np.ndarray:
        """Return the array again."""
        return np.array(self.numbers).reshape(self.shape)


@dataclass(frozen=True)
class LinearSums:
    """Σ −log p_y with p = softmax(W x + b), and its slopes."""

    view: View
    form: Form
    beta: float
    weights: Flat
    intercepts: Flat

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = self.view.of(chunk)
        if not len(p):
            return {}
        key = (self.view, self.form, self.beta)
        if key not in chunk.views:
            chunk.views[key] = features(p.scores, self.form, self.beta)
        both = self.weights.array(), self.intercepts.array()
        nll, by_weights, by_intercepts = sum_of_nll(chunk.views[key], p.labels, *both, p.weights)
        return {"sum:nll": np.array([nll]), "sum:w": by_weights, "sum:b": by_intercepts}


def features(scores: np.ndarray, form: Form, beta: float) -> np.ndarray:
    """Return x of a linear calibrator, in float64."""
    wide = scores.astype(np.float64)
    if form == "tempered":
        return np.asarray(log_softmax(beta * wide))
    return np.asarray(beta * (centred(wide) if form == "centred" else log_softmax(wide)))


@dataclass(frozen=True)
class ScoreCurves:
    """How often each class came true by its score, in 65,536 bins of log-odds per class.

    For calibrators of one number. A bin keeps the sums of its scores, separately of the
    events that happened, so that means of narrow bins stand for the scores. ``top`` asks for the
    predicted class alone; ``claims`` for class 1 of claims.
    """

    view: View
    log_odds: bool
    top: bool
    claims: bool

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = self.view.of(chunk)
        if not len(p):
            return {}
        scores, happened = self._pairs(p)
        bins = bin_log_odds(scores.copy()) if self.log_odds else bin_numbers(scores)
        place = (np.arange(scores.shape[1]) * BINS + bins).ravel()
        weights = np.ones(len(p)) if p.weights is None else p.weights
        each = np.broadcast_to(weights[:, None], scores.shape).ravel()
        hits, flat = each * happened.ravel(), scores.ravel()
        columns = {"count": each, "hits": hits, "score": each * flat, "hit_score": hits * flat}
        return _cells(place, columns, scores.shape[1] * BINS)

    def _pairs(self, p: Predictions) -> tuple[np.ndarray, np.ndarray]:
        """Return scores (n, C) and whether the event of each came true."""
        wide = p.scores.astype(np.float64)
        given = np.asarray(log_odds(wide)) if self.log_odds else wide
        if self.top:
            chosen = np.ones(len(p), int) if self.claims else wide.argmax(axis=1)
            rows = np.arange(len(p))
            return given[rows, chosen][:, None], (chosen == p.labels)[:, None]
        first = 1 if p.classes == 2 else 0
        return given[:, first:], p.labels[:, None] == np.arange(first, p.classes)


def _cells(place: np.ndarray, columns: Mapping[str, np.ndarray], cells: int) -> Answer:
    """Add up the columns of each cell in use."""
    if cells <= _DENSE * len(place):  # A table of all cells is quicker than a sort.
        tables = {name: np.bincount(place, c, minlength=cells) for name, c in columns.items()}
        used = np.flatnonzero(np.bincount(place, minlength=cells))
        return {"cell:place": used, **{f"cell:{n}": table[used] for n, table in tables.items()}}
    found, where = np.unique(place, return_inverse=True)
    added = {n: np.bincount(where.reshape(-1), c, len(found)) for n, c in columns.items()}
    return {"cell:place": found, **{f"cell:{n}": column for n, column in added.items()}}


@dataclass(frozen=True, eq=False)
class After:
    """The mean NLL before and after fitted calibrators, and how much doubt they leave.

    A probability of 0 counts as ``floor``. ``doubt`` is asked of data without a mistake.
    """

    calibrator: Calibrator
    folded: Folded | None
    floor: float
    doubt: bool

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = rows_of(chunk, self.folded)
        if not len(p):
            return {}
        mapped = mapped_by(self.calibrator, p)
        sums = [p.size, *(p.size * mean_nll(q, self.floor) for q in (p, mapped))]
        found = {"sum:nll": np.array(sums)}
        if self.doubt:
            found["sum:doubt"] = np.array(self._doubts(p, mapped))
        return found

    def _doubts(self, p: Predictions, mapped: Predictions) -> list[float]:
        """Return sums of doubt before and after, and of weights."""
        if self.calibrator.claims_:  # All labels are the same: what the other is given.
            other = 1 - int(p.labels[0])
            weights = np.ones(len(p)) if p.weights is None else p.weights
            both = [q.probabilities()[:, other] for q in (p, mapped)]
            return [*(float(weights @ doubt) for doubt in both), p.size]
        alone = untied(p.scores)
        return [*(_doubt_of(q[alone]) for q in (p, mapped)), p[alone].size]


def mapped_by(calibrator: Calibrator, p: Predictions) -> Predictions:
    """Return predictions after a calibrator, also claims as binary ones, in float64."""
    scores = calibrator.mapped(p.scores.astype(np.float64), p.kind, p.groups, p.signals)
    return p.with_checked_scores(scores, calibrator.kind_of(p.kind))


def _doubt_of(p: Predictions) -> float:
    return unclaimed(p.scores, p.kind, weights=p.weights) * p.size if len(p) else 0.0
