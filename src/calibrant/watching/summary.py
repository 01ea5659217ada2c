"""From the sums of chunks to estimates with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.charts.numbers import percent, points
from calibrant.watching.record import WatchedChunk
from calibrant.watching.reference import Reference
from calibrant.watching.sums import (
    ChunkSums,
    Estimate,
    expected_accuracy,
    expected_entity_f1,
    expected_macro_f1,
)

__all__ = ["ESTIMATORS", "Summary"]

ESTIMATORS = ("cbpe", "atc")
_MOST_CLASS_NAMES = 1000  # Whose F1 is kept with each chunk.
_FIT = {
    False: "Fit a calibrator first ('calibrant fit').",
    True: "This calibrator does not fit the reference: 'calibrant compare' finds one that does.",
}
_DOUBT = 3.0  # Standard errors of the reference's gap.


@dataclass(frozen=True)
class Summary:
    """How sums become numbers: the estimator, the level, and the reference, if there is one."""

    estimator: str
    level: float
    reference: Reference | None = None
    names: tuple[str, ...] = ()

    def chunk(
        self,
        name: str,
        sums: ChunkSums,
        evidence: Mapping[str, float],
        accuracy: Estimate,
        alarms: tuple[str, ...],
    ) -> WatchedChunk:
        """Return the numbers of a chunk."""
        reference = self.reference
        return WatchedChunk(
            name,
            sums.n,
            self._accuracy(sums),
            expected_macro_f1(sums, self.level, self._inflation, self._variance),
            self._entity_f1(sums),
            self._class_f1(sums),
            math.nan if reference is None else reference.confidence_drift(sums.places),
            math.nan if reference is None else reference.class_drift(sums.shown),
            sums.labelled,
            accuracy,
            sums.right / sums.labelled if sums.labelled else math.nan,
            evidence,
            alarms,
        )

    @property
    def _inflation(self) -> float:
        return 1.0 if self.reference is None else self.reference.inflation

    @property
    def _variance(self) -> float:
        return 0.0 if self.reference is None else self.reference.variance

    def _accuracy(self, sums: ChunkSums) -> Estimate:
        if self.estimator == "atc":
            share = sums.above / sums.n
            spread = sums.n * share * (1 - share)
            sums = replace(sums, claimed=float(sums.above), variance=spread, skew=0.0)
        return expected_accuracy(sums, self.level, self._inflation, self._variance)

    def _entity_f1(self, sums: ChunkSums) -> Estimate:
        if self.reference is None or self.reference.entities is None:
            return Estimate(math.nan)
        judge = self.reference.entities
        learned = judge.variance, judge.true
        return expected_entity_f1(sums, self.level, self._inflation, judge.rates, learned)

    def _class_f1(self, sums: ChunkSums) -> dict[str, float]:
        if len(self.names) > _MOST_CLASS_NAMES or not isinstance(sums.mass, np.ndarray):
            return {}
        both = sums.predicted + sums.mass
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(both > 0, 2 * sums.found / both, math.nan)
        return dict(zip(self.names, values.tolist(), strict=True))

    def described_reference(self) -> dict[str, Any]:
        """Return the numbers of the reference by name."""
        if (reference := self.reference) is None:
            return {}
        entities = reference.entities
        return {
            "rows": reference.n,
            "accuracy": reference.accuracy,
            "mean_confidence": reference.confidence,
            "entity_f1": math.nan if entities is None else entities.f1,
            "inflation": reference.inflation,
        }

    def warnings(self, calibrated: bool) -> Iterator[str]:
        """Say where the estimates rest on something that is doubtful."""
        reference = self.reference
        if reference is None:
            if not calibrated:
                yield "Without a calibrator or a reference, confidences are assumed to be honest."
            return
        if abs(reference.gap) > max(_DOUBT * math.sqrt(reference.variance), 0.005):
            yield (
                f"On the reference the mean confidence ({percent(reference.confidence)}) is "
                f"{points(reference.gap)} points off the accuracy ({percent(reference.accuracy)}), "
                f"so expected values are off by about as much. {_FIT[calibrated]}"
            )
