"""What an audit finds, as plain data: the command line prints it, the report draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.metrics import CalibrationState, Confidences

__all__ = ["Audit", "ClassRow", "EntityView", "Measure", "Mistake"]


@dataclass(frozen=True)
class Measure:
    """One number with its interval and one plain sentence of what it means."""

    name: str  # as in calibrant.metrics: "ece"
    title: str  # for people: "Expected calibration error"
    value: float
    low: float | None = None
    high: float | None = None
    meaning: str = ""


@dataclass(frozen=True)
class ClassRow:
    """How one predicted class fares: its examples, mean confidence, precision."""

    name: str
    labelled: int
    predicted: int
    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Confidence − accuracy; positive is overconfident."""
        return self.confidence - self.accuracy


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction: its row in the file (ignored rows not counted), groups and confidence."""

    row: int
    confidence: float
    predicted: str
    label: str
    groups: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EntityView:
    """The view of predictions whose labels are BIO tags."""

    measures: tuple[Measure, ...]
    state: CalibrationState  # binned entity confidence against exact span and type
    reduction: str
    types: tuple[ClassRow, ...]


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` found."""

    label_names: tuple[str, ...]
    state: CalibrationState
    confidences: Confidences
    measures: tuple[Measure, ...]
    verdict: tuple[str, ...]  # plain sentences, the most important first
    classes: tuple[ClassRow, ...]  # worst first
    mistakes: tuple[Mistake, ...]  # most confident first
    entities: EntityView | None
    provenance: Mapping[str, Any]  # file names and hashes, n, ignored, bins, edges, dtype, versions
