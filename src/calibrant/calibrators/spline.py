"""Spline calibration: the slope of a smooth curve through the cumulative accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import interpolate
from calibrant.calibrators.faultless import supported
from calibrant.calibrators.scalar import ScalarCurve, TopLabel
from calibrant.calibrators.ties import by_score
from calibrant.errors import InputError

__all__ = ["Spline"]

_MOST_NODES = 1000  # Nodes of the saved curve, at quantiles of the confidences.


class Spline(TopLabel):
    """c' = h'(t), the slope of a cubic spline through the cumulative accuracy at quantile t of c.

    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley, "Calibration of Neural Networks using
    Splines", ICLR 2021. With confidences in ascending order, h(i/n) = (1/n) Σ_{j≤i} right_j; a
    natural cubic spline with ``knots`` knots is fitted to it by least squares, and its derivative
    at t estimates the accuracy there. Tied confidences are one point, with the mean slope. It is
    kept at up to 1000 quantiles and interpolated linearly between them. Values stay 1 / (m + 2)
    away from 0 and 1 with m examples between two knots (:mod:`calibrant.calibrators.faultless`); a
    number as ``floor`` replaces this distance.

    The authors' code fits the spline to h minus the cumulative confidence and adds c to its slope:
    ``less_confidence=True``.

    A smooth binning-free curve of the top label; the derivative may oscillate where data are few.

    >>> from calibrant import Predictions
    >>> confidence = np.linspace(0.5, 0.999, 1001)
    >>> right = np.arange(1001) % 4 != 0  # Three of four, whatever the confidence.
    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities(confidence, right.astype(int))
    >>> Spline().fit(p).transform(p).scores[[100, 900], 1].round(2)
    array([0.75, 0.75])
    """

    name = "spline"

    nodes_: np.ndarray
    values_: np.ndarray

    def __init__(
        self,
        knots: int = 6,
        less_confidence: bool = False,
        floor: float | None = None,
        keep_prediction: bool = True,
    ) -> None:
        self.knots = knots
        self.less_confidence = less_confidence
        self.floor = floor
        self.keep_prediction = keep_prediction

    def _scalar(self) -> ScalarCurve:
        return _SplineCurve(self.knots, self.less_confidence, self.floor)


class _SplineCurve(ScalarCurve):
    def __init__(self, knots: int, less_confidence: bool, floor: float | None) -> None:
        if knots < 2 or not 0 <= (floor or 0) < 0.5:
            raise InputError(
                f"Spline expects knots ≥ 2 and floor in [0, 0.5), got {knots} and {floor}."
            )
        self.knots, self.less_confidence, self.floor = knots, less_confidence, floor

    def fit(
        self, scores: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        points = by_score(scores, happened, weights)
        total = float(points.weight.sum())
        t = points.weight.cumsum() / total
        reference = points.middle if self.less_confidence else np.zeros(len(t))
        h = (points.hits - points.weight * reference).cumsum() / total
        knots = np.linspace(0, 1, self.knots)
        # h(0) = 0 is a point of the curve too.
        basis = natural_splines(np.append(0, t), knots)
        coefficients = np.linalg.lstsq(basis, np.append(0, h), rcond=None)[0]
        kept = np.unique(np.linspace(0, len(t) - 1, _MOST_NODES).round().astype(int))
        # The mean slope over a tied group represents all of it: inside it there are no data, and
        # the curve may go up and down.
        before, after = np.append(0, t)[:-1][kept], t[kept]
        ends = [natural_splines(at, knots) @ coefficients for at in (before, after)]
        slope = (ends[1] - ends[0]) / (after - before) + reference[kept]
        between = np.full(len(slope), total / (self.knots - 1))
        values = supported(slope, between, self.floor)
        # Flat over scores that differ by rounding alone.
        nodes, first = np.unique([points.low[kept], points.high[kept]], return_index=True)
        values = np.tile(values, 2)[first]
        if len(nodes) == 1:
            nodes, values = np.repeat(nodes, 2), np.repeat(values, 2)
        return {"nodes_": nodes, "values_": values}

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return interpolate(values["nodes_"], values["values_"], scores)


def natural_splines(t: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return a basis of the natural cubic splines at ``t``, of shape (n, knots).

    1, t, and d_k − d_{m−1} with d_k = ((t − ξ_k)₊³ − (t − ξ_m)₊³) / (ξ_m − ξ_k): cubic between
    the knots ξ, linear beyond the first and last (Hastie, Tibshirani, Friedman, 2009, 5.2.1).
    """
    above = np.maximum(t[:, None] - knots, 0)
    gaps = knots[-1] - knots[:-1]
    cubes = (above[:, :-1] ** 3 - above[:, -1:] ** 3) / gaps
    return np.hstack([np.ones((len(t), 1)), t[:, None], cubes[:, :-1] - cubes[:, -1:]])
