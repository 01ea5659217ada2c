"""Make the measures of an audit: a number, its bootstrap interval and a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calibrant.auditing.record import Measure
from calibrant.metrics import (
    METRICS,
    CalibrationState,
    Confidences,
    ConfidenceSteps,
    MatchCounts,
    Metric,
    bootstrap_interval,
    confidence_steps,
    replicate,
    risk_coverage_curve,
)
from calibrant.metrics.bootstrap import (
    all_alike,
    check_bootstrap,
    effective_groups,
    independent_units,
    rarer_kind,
    tells_of_mistakes,
)
from calibrant.metrics.class_sums import ClassSums
from calibrant.metrics.interval_ends import interval_of
from calibrant.metrics.metric import Kind
from calibrant.metrics.table import metric_of

__all__ = ["Estimator"]

_BLOCKED = (CalibrationState, ClassSums, MatchCounts)


@dataclass(frozen=True)
class Estimator:
    """Makes measures from sources with blocks; ``replicates=0`` leaves the intervals out."""

    replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    independent: bool = False  # The examples of a block do not depend on each other.

    def __post_init__(self) -> None:
        check_bootstrap(self.replicates or 10**9, self.level, self.seed)  # None is always enough.

    def __call__(
        self, kind: Kind, sources: Mapping[str, Any], bins: int = 15
    ) -> tuple[Measure, ...]:
        """Return the metrics of a kind whose sources are all there, in the order of the table."""
        rows = [
            row
            for row in METRICS.values()
            if row.kind == kind and row.audited and row.applies(sources)
        ]
        found: dict[str, Measure] = {}
        for names in dict.fromkeys(row.source for row in rows):
            together = [row for row in rows if row.source == names]
            functions = [row.with_bins(bins) for row in together]
            measured = self.measured(functions, tuple(sources[name] for name in names))
            found |= {
                row.name: _measure(row, *numbers)
                for row, numbers in zip(together, measured, strict=True)
            }
        return tuple(found[row.name] for row in rows)

    def measured(
        self, functions: Sequence[Callable[..., Any]], sources: tuple[Any, ...]
    ) -> list[tuple[float, Any]]:
        """Return the value and the interval of each function of the same sources."""
        if isinstance(sources[0], Confidences):
            return self._of_steps(functions, sources[0])
        return [self._one(function, sources) for function in functions]

    def _one(self, function: Callable[..., Any], sources: tuple[Any, ...]) -> tuple[float, Any]:
        """Return the value of the whole sources, with the interval over their blocks."""
        if not isinstance(sources[0], _BLOCKED):
            return float(function(*sources)), None
        value, bounds = float(function(*(source.total() for source in sources))), None
        if self.replicates and np.isfinite(value) and _has_interval(function):
            options: dict[str, Any] = {
                "replicates": self.replicates,
                "level": self.level,
                "seed": self.seed,
                "independent": self.independent,
            }
            blocked = sources if len(sources) > 1 else sources[0]
            bounds = bootstrap_interval(function, blocked, **options)
        return value, bounds

    def _of_steps(
        self, functions: Sequence[Callable[..., Any]], source: Confidences
    ) -> list[tuple[float, Any]]:
        """Return the same for functions of confidences, sorted and drawn once for all of them."""
        steps = confidence_steps(source)
        estimates = _each(functions, steps)
        drawn, groups = None, effective_groups(source)
        units, alike = independent_units(source, self.independent), all_alike(source)
        options: dict[str, Any] = {"groups": groups, "units": units, "alike": alike}
        options |= {"rarer": rarer_kind(source, units), "curve": risk_coverage_curve(steps)}
        if self.replicates:
            together = partial(_each, functions)
            drawn = replicate(together, source, replicates=self.replicates, seed=self.seed)
        measured = []
        for k, (function, value) in enumerate(zip(functions, estimates.tolist(), strict=True)):
            bounds = None
            known = drawn is not None and np.isfinite(value) and not np.isnan(drawn[:, k]).all()
            if drawn is not None and known and tells_of_mistakes(function, source, value, units):
                bounds = interval_of(function, drawn[:, k], value, level=self.level, **options)
            measured.append((value, bounds))
        return measured


def _has_interval(function: Callable[..., Any]) -> bool:
    row = metric_of(function)
    return row is None or row.spread != "maximum"


def _each(functions: Sequence[Callable[..., Any]], source: ConfidenceSteps) -> np.ndarray:
    return np.array([function(source) for function in functions], np.float64)


def _measure(row: Metric, value: float, bounds: tuple[Any, Any] | None) -> Measure:
    low, high = bounds or (None, None)
    low = None if low is None else max(0.0, low)  # No measure of an audit is negative.
    meaning = row.explain(value) if not np.isnan(value) else "Not defined on these examples."
    return Measure(row.name, row.title, value, low, high, meaning)
