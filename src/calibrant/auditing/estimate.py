"""A number, its bootstrap interval and what it means: one measure of an audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calibrant.auditing.explanations import MEANINGS
from calibrant.auditing.record import Measure
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    MatchCounts,
    Steps,
    interval,
    replicate,
    steps,
)
from calibrant.metrics.bootstrap import check_bootstrap, effective_groups
from calibrant.metrics.interval_ends import interval_of

__all__ = ["Estimator"]


@dataclass(frozen=True)
class Estimator:
    """Makes measures from sources with blocks; ``replicates=0`` leaves the intervals out."""

    replicates: int = 1000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_bootstrap(self.replicates or 10**9, self.level, self.seed)  # None is always enough.

    def __call__(self, name: str, title: str, metric: Callable[..., Any], *source: Any) -> Measure:
        """``metric`` of the whole of each source, with the interval over their blocks."""
        value = float(metric(*(_whole(s) for s in source)))
        bounds = None
        if self.replicates and np.isfinite(value):
            blocked = source if len(source) > 1 else source[0]
            bounds = interval(
                metric, blocked, replicates=self.replicates, level=self.level, seed=self.seed
            )
        return _measure(name, title, value, bounds)

    def of_steps(
        self, entries: Sequence[tuple[str, str, Callable[..., Any]]], source: Confidences
    ) -> list[Measure]:
        """The same for many metrics of confidences, which are sorted and drawn once for all."""
        ordered, metrics = steps(source), [metric for _, _, metric in entries]
        estimates = _each(metrics, ordered)
        drawn, groups = None, effective_groups(source)
        if self.replicates:
            together = partial(_each, metrics)
            drawn = replicate(together, source, replicates=self.replicates, seed=self.seed)
        measures = []
        for k, (name, title, metric) in enumerate(entries):
            bounds, value = None, float(estimates[k])
            if drawn is not None and np.isfinite(value) and not np.isnan(drawn[:, k]).all():
                bounds = interval_of(metric, drawn[:, k], value, level=self.level, groups=groups)
            measures.append(_measure(name, title, value, bounds))
        return measures


def _each(metrics: Sequence[Callable[..., Any]], source: Steps) -> np.ndarray:
    return np.array([metric(source) for metric in metrics], np.float64)


def _measure(name: str, title: str, value: float, bounds: tuple[Any, Any] | None) -> Measure:
    low, high = bounds or (None, None)
    low = None if low is None else max(0.0, low)  # No measure of an audit is negative.
    meaning = MEANINGS[name](value) if not np.isnan(value) else "Not defined on these examples."
    return Measure(name, title, value, low, high, meaning)


def _whole(source: CalibrationState | MatchCounts | Confidences) -> Any:
    return source if isinstance(source, Confidences) else source.total()
