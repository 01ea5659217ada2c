"""For sequences: a temperature per position in the sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import constant, namespace
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.grouped import group_temperatures
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["PositionTemperature"]


class PositionTemperature(Calibrator):
    """p = softmax(l / T_b), b the bucket of the token's position in its sentence.

    Positions count from 0 and come from ``groups["position"]``. Bucket b holds the positions from
    ``starts[b]`` up to the next start; by default 0, 1, 2–3, 4–7, 8–15, 16–31, 32–63, 64 and
    more. Buckets are pulled towards the common temperature as in
    :func:`calibrant.calibrators.grouped.group_temperatures`. Keeps the argmax.

    >>> logits, labels = [[3.0, 0.0]] * 80, [0] * 30 + [1] * 10 + [0] * 38 + [1] * 2
    >>> p = Predictions.from_logits(logits, labels, groups={"position": [0] * 40 + [5] * 40})
    >>> PositionTemperature().fit(p).temperatures_[[0, 3]].round(2)
    array([2.51, 1.2 ])
    """

    name = "position-temperature"
    keeps_argmax = True
    needs_groups = ("position",)

    temperature_: float
    temperatures_: np.ndarray

    def __init__(
        self,
        starts: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64),
        spread: float = 0.5,
        fewest: int = 20,
    ) -> None:
        self.starts = starts
        self.spread = spread
        self.fewest = fewest

    def _fit(self, predictions: Predictions) -> Fit:
        if list(self.starts) != sorted(set(self.starts)) or self.starts[:1] != (0,):
            raise InputError(
                f"PositionTemperature expects ascending starts from 0, got {self.starts}."
            )
        position = predictions.groups["position"]
        if position.dtype.kind not in "iu" or position.min() < 0:
            raise InputError(
                "PositionTemperature expects groups['position'] as whole numbers from 0, got "
                f"{position.dtype} from {position.min()}."
            )
        common, temperatures = group_temperatures(
            predictions.scores,
            predictions.labels,
            self._bucket(position),
            len(self.starts),
            spread=self.spread,
            fewest=self.fewest,
        )
        return Fit({"temperature_": common, "temperatures_": temperatures})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return scores / values["temperatures_"][self._bucket(values["position"])][..., None]

    def _bucket(self, position: Array) -> Array:
        starts = constant(np.array(self.starts[1:], np.int64), position)
        return namespace(position).searchsorted(starts, position, side="right")
