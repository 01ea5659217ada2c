"""A number, its bootstrap interval and what it means: one measure of an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.audit.meaning import MEANINGS
from calibrant.audit.record import Measure
from calibrant.metrics import CalibrationState, Confidences, MatchCounts, interval
from calibrant.metrics.bootstrap import check_bootstrap

__all__ = ["Estimator"]


@dataclass(frozen=True)
class Estimator:
    """Makes measures from sources with blocks; ``replicates=0`` leaves the intervals out."""

    replicates: int = 1000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_bootstrap(self.replicates or 10**9, self.level, self.seed)  # None is always enough.

    def __call__(
        self, name: str, title: str, metric: Callable[..., Any], *source: Any, whole: Any = None
    ) -> Measure:
        """``metric`` of the whole of each source, with the interval over their blocks.

        ``whole`` is that of a single source, where it serves many metrics and takes time to make.
        """
        value = float(metric(*(_whole(s) for s in source)) if whole is None else metric(whole))
        bounds = None
        if self.replicates and np.isfinite(value):
            blocked = source if len(source) > 1 else source[0]
            bounds = interval(
                metric, blocked, replicates=self.replicates, level=self.level, seed=self.seed
            )
        low, high = bounds or (None, None)
        meaning = MEANINGS[name](value) if not np.isnan(value) else "Not defined on these examples."
        return Measure(name, title, value, low, high, meaning)


def _whole(source: CalibrationState | MatchCounts | Confidences) -> Any:
    return source if isinstance(source, Confidences) else source.total()
