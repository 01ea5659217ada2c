"""Histogram binning: the observed frequency in each bin, a step function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import bin_numbers, step
from calibrant.calibrators.faultless import supported
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve, TopLabel
from calibrant.calibrators.ties import tied_runs, tolerance
from calibrant.errors import InputError

__all__ = [
    "HistogramBinning",
    "Runs",
    "StepCurve",
    "TopLabelHistogramBinning",
    "equal_mass_edges",
    "steps",
]


class StepCurve(ScalarCurve):
    """values_[b] where edges_[b − 1] < p ≤ edges_[b]."""

    @abstractmethod
    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Return edges and values."""

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        """Look each score up."""
        return step(values["edges_"], values["values_"], scores)


def steps(edges: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the learned arrays; a single bin gets an edge at 1, so that there is always one."""
    if not len(edges):
        edges, values = np.ones(1), np.repeat(values, 2)
    return {"edges_": edges.astype(np.float64), "values_": values}


def equal_mass_edges(
    scores: np.ndarray, bins: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return inner edges that split the scores into bins of nearly equal size.

    Each edge lies halfway between the largest score of its bin and the next one: on a score itself,
    a last bit that NumPy, torch and ONNX round differently would put it into another bin. Tied
    scores, also those that differ by rounding alone (:mod:`calibrant.calibrators.ties`), stay
    together; a bin that ties would leave empty is merged, so there may be fewer. With sample
    weights bins have nearly the same sum of weights.

    >>> equal_mass_edges(np.array([0.1, 0.2, 0.3, 0.3, 0.3, 1.0]), 3)
    array([0.25, 0.65])
    """
    if weights is None:
        starts = np.unique(np.arange(1, bins) * len(scores) // bins)
        starts = starts[starts > 0]
        # Only the scores next to the edges need to be in sorted position.
        ordered = np.partition(scores, np.append(starts - 1, starts)) if len(starts) else scores
        ends, following = ordered[starts - 1], ordered[starts]
        if (following - ends > tolerance(ends)).all():
            return _halfway(ends, following)
        return Runs(np.sort(scores)).edges(bins)
    order = np.argsort(scores)
    return Runs(scores[order], weights[order]).edges(bins)


class Runs:
    """Ascending scores as runs of ties, with the number of examples up to each run's end."""

    def __init__(self, ordered: np.ndarray, weights: np.ndarray | None = None) -> None:
        self._ordered, self._first = ordered, tied_runs(ordered)
        if weights is None:
            self._below = np.append(self._first[1:], len(ordered))
        else:
            self._below = np.cumsum(np.add.reduceat(weights, self._first))

    def edges(self, bins: int) -> np.ndarray:
        """Return the edges of bins of nearly equal mass; weights count as repeated rows."""
        # The last row before k / bins of the mass: whole rows, so one below it still counts.
        wanted = np.arange(1, bins) * self._below[-1] / bins - 1
        ends = np.unique(np.searchsorted(self._below, wanted[wanted >= 0], side="right"))
        cuts = self._first[ends[ends < len(self._first) - 1] + 1]
        return _halfway(self._ordered[cuts - 1], self._ordered[cuts])


def _halfway(ends: np.ndarray, following: np.ndarray) -> np.ndarray:
    middle = ends + (following - ends) / 2
    edges: np.ndarray = np.where(middle < following, middle, ends)  # Neighbours have no middle.
    return edges


class _Binned:
    """The arguments and learned values of both forms."""

    edges_: np.ndarray
    values_: np.ndarray

    def __init__(
        self,
        bins: int = 15,
        equal: Literal["mass", "width"] = "mass",
        floor: float | None = None,
    ) -> None:
        self.bins = bins
        self.equal = equal
        self.floor = floor

    def _scalar(self) -> ScalarCurve:
        return _Histogram(self.bins, self.equal, self.floor)


class HistogramBinning(_Binned, OneVsRest):
    """q_k = share of examples of class k among those in the bin of p_k; one against the rest.

    Zadrozny, Elkan, "Obtaining calibrated probability estimates from decision trees and naive
    Bayesian classifiers", ICML 2001. ``equal="mass"``: bins with the same number of examples
    (tied scores stay together); ``"width"``: bins of width 1 / ``bins``. Bins are (lo, hi]. A bin
    without examples has its middle. The value of a bin of n examples stays 1 / (n + 2) away from
    0 and 1 (:mod:`calibrant.calibrators.faultless`); a number as ``floor`` replaces this distance,
    and ``floor=0`` is the published calibrator.

    It needs many examples per bin. It makes ties and so changes the accuracy.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.1, 0.9]] * 4 + [[0.8, 0.2]], [1, 1, 1, 0, 0])
    >>> HistogramBinning(bins=2, equal="width", floor=0).fit(p).transform(p).scores[[0, 4], 1]
    array([0.75, 0.  ])
    """

    name = "histogram"


class TopLabelHistogramBinning(_Binned, TopLabel):
    """c' = accuracy among the examples in the bin of the confidence c; the rest as before.

    The top-label form (Guo et al. 2017; Gupta, Ramdas, "Top-label calibration", ICLR 2022, who
    show that it has distribution-free guarantees); arguments as :class:`HistogramBinning`.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.1, 0.9]] * 4, [1, 1, 1, 0])
    >>> TopLabelHistogramBinning(bins=1).fit(p).transform(p).scores[0]
    array([0.25, 0.75])
    """

    name = "histogram-top-label"

    def __init__(
        self,
        bins: int = 15,
        equal: Literal["mass", "width"] = "mass",
        floor: float | None = None,
        keep_prediction: bool = True,
    ) -> None:
        super().__init__(bins, equal, floor)
        self.keep_prediction = keep_prediction


class _Histogram(StepCurve):
    def __init__(self, bins: int, equal: str, floor: float | None) -> None:
        if bins < 1 or equal not in ("mass", "width") or not 0 <= (floor or 0) < 0.5:
            raise InputError(
                "Histogram binning expects bins ≥ 1, equal 'mass' or 'width' and floor in "
                f"[0, 0.5), got bins={bins}, equal={equal!r}, floor={floor}."
            )
        self.bins, self.equal, self.floor = bins, equal, floor

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        if self.equal == "mass":
            edges = equal_mass_edges(scores, self.bins, weights)
        else:
            edges = np.arange(1, self.bins) / self.bins
        index, bins = bin_numbers(edges, scores), len(edges) + 1
        events = None if weights is None else weights[happened]
        count = np.bincount(index, weights, minlength=bins)
        hits = np.bincount(index[happened], events, minlength=bins)
        middle = (np.append(0, edges) + np.append(edges, 1)) / 2
        values = np.where(count > 0, hits / np.where(count > 0, count, 1), middle)
        return steps(edges, supported(values, count, self.floor, self.others))
