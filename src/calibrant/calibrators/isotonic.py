"""Isotonic regression: the best non-decreasing function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import interpolate
from calibrant.calibrators.faultless import supported
from calibrant.calibrators.scalar import OneVsRest, ScalarCurve, TopLabel
from calibrant.calibrators.ties import by_score
from calibrant.errors import InputError

__all__ = [
    "CentredIsotonic",
    "Isotonic",
    "TopLabelCentredIsotonic",
    "TopLabelIsotonic",
    "pool_adjacent_violators",
]


class Isotonic(OneVsRest):
    """q_k = the non-decreasing function of p_k with the least squared error; one against the rest.

    Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability
    estimates", KDD 2002. Between the blocks of the fit it interpolates linearly, as scikit-learn
    does. The outer blocks, of n examples each, stay 1 / (n + 2) away from 0 and 1, unless their
    neighbour is nearer (:mod:`calibrant.calibrators.faultless`); a number as ``floor`` replaces
    this distance, and ``floor=0`` is the published calibrator.

    It assumes no shape, so it needs data: below about 1000 examples per class prefer a parametric
    calibrator. Scores within a block become ties.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> Isotonic(floor=0).fit(p).transform(p).scores[:, 1]
    array([0. , 0.5, 0.5, 1. ])
    """

    name = "isotonic"
    _centred: ClassVar[bool] = False

    nodes_: np.ndarray
    values_: np.ndarray

    def __init__(self, floor: float | None = None) -> None:
        self.floor = floor

    def _scalar(self) -> ScalarCurve:
        return _IsotonicCurve(self.floor, self._centred)


class TopLabelIsotonic(TopLabel):
    """c' = the non-decreasing function of the confidence c nearest to correctness.

    One function for all classes, so it needs K times fewer examples than :class:`Isotonic`.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.9, 0.9, 0.9], [0, 1, 1, 1])
    >>> TopLabelIsotonic().fit(p).transform(p).scores[0]
    array([0.25, 0.75])
    """

    name = "isotonic-top-label"
    _centred: ClassVar[bool] = False

    nodes_: np.ndarray
    values_: np.ndarray

    def __init__(self, floor: float | None = None, keep_prediction: bool = True) -> None:
        self.floor = floor
        self.keep_prediction = keep_prediction

    def _scalar(self) -> ScalarCurve:
        return _IsotonicCurve(self.floor, self._centred)


class CentredIsotonic(Isotonic):
    """Isotonic regression without plateaus: each block at its mean score, lines between them.

    Oron, Flournoy, "Centered isotonic regression", Statistics in Biopharmaceutical Research 2017.
    Different scores within the range of the blocks' means stay different, so the ranking, which
    :class:`Isotonic` loses in its blocks, stays. The calibrator is constant beyond the outer
    blocks.

    >>> from calibrant import Predictions
    >>> scores = [0.05, 0.05, 0.05, 0.3, 0.6, 0.95, 0.95, 0.95]
    >>> p = Predictions.from_probabilities(scores, [0, 0, 1, 1, 0, 1, 1, 0])
    >>> CentredIsotonic(floor=0).fit(p).transform(p).scores[2:6, 1].round(3)
    array([0.333, 0.438, 0.55 , 0.667])
    """

    name = "centred-isotonic"
    _centred = True


class TopLabelCentredIsotonic(TopLabelIsotonic):
    """c' = :class:`CentredIsotonic` of the confidence c, one function for all classes.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([0.9, 0.9, 0.9, 0.9], [0, 1, 1, 1])
    >>> TopLabelCentredIsotonic().fit(p).transform(p).scores[0]
    array([0.25, 0.75])
    """

    name = "centred-isotonic-top-label"
    _centred = True


class _IsotonicCurve(ScalarCurve):
    def __init__(self, floor: float | None, centred: bool = False) -> None:
        if floor is not None and not 0 <= floor < 0.5:
            raise InputError(f"Isotonic regression expects floor in [0, 0.5), got {floor}.")
        self.floor, self.centred = floor, centred

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        points = by_score(scores, happened, weights)
        means, starts = pool_adjacent_violators(points.hits / points.weight, points.weight)
        weights = np.add.reduceat(points.weight, starts)
        values = self._drawn_in(means, weights)
        if self.centred and len(means) > 1:
            return {
                "nodes_": np.add.reduceat(points.middle * points.weight, starts) / weights,
                "values_": values,
            }
        ends = np.append(starts[1:], len(points.weight)) - 1
        # A block is flat from its first to its last score; a line connects two blocks.
        nodes = np.stack([points.low[starts], points.high[ends]], axis=1).ravel()
        return {"nodes_": nodes, "values_": np.repeat(values, 2)}

    def _drawn_in(self, means: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return supported values that still rise: an outer block never passes its neighbour."""
        values = supported(means, weights, self.floor, self.others)
        if self.floor is None:  # Small sample weights can bring an inner block nearer to 0 or 1.
            values[1:-1] = means[1:-1]
        if len(values) > 1:
            values[0], values[-1] = min(values[:2]), max(values[-2:])
        return values

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return interpolate(values["nodes_"], values["values_"], scores)


def pool_adjacent_violators(
    values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the blocks of the isotonic regression: their means, and where each starts.

    Any run that does not increase belongs to one block of the solution, so all such runs can be
    pooled at once; repeated until none is left. On noisy data each round shrinks the sequence by
    a factor, so the work is linear in NumPy. Where a round shrinks it by less than a tenth (one
    low value at the end of a long ascent), the usual stack finishes in one pass.

    >>> pool_adjacent_violators(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    (array([1. , 2.5, 4. ]), array([0, 1, 3]))
    """
    sums = values * weights
    weights, means = weights.astype(np.float64), values.astype(np.float64)
    starts = np.arange(len(values))
    while True:
        first = np.append(True, means[1:] > means[:-1])
        if first.all():
            return means, starts
        index = np.flatnonzero(first)
        small_gain = len(index) > 0.9 * len(means)
        sums, weights = np.add.reduceat(sums, index), np.add.reduceat(weights, index)
        means, starts = sums / weights, starts[index]
        if small_gain:
            return _by_stack(sums, weights, starts)


def _by_stack(
    sums: np.ndarray, weights: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add one block after the other, pooled with earlier blocks while they are not below it."""
    blocks: list[tuple[float, float, int]] = []
    for total, weight, start in zip(sums.tolist(), weights.tolist(), starts.tolist(), strict=True):
        while blocks and blocks[-1][0] * weight >= total * blocks[-1][1]:
            total, weight = total + blocks[-1][0], weight + blocks[-1][1]
            start = blocks.pop()[2]
        blocks.append((total, weight, start))
    table = np.array(blocks)
    return table[:, 0] / table[:, 1], table[:, 2].astype(np.int64)
