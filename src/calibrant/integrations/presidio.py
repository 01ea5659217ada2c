"""Learned confidences in Presidio's results, and a threshold for each type of entity."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from calibrant.entities import Entity, EntityCalibrator
from calibrant.errors import InputError

__all__ = ["CalibratedAnalyzer"]


class CalibratedAnalyzer:
    """An ``AnalyzerEngine`` whose scores are learned confidences::

        found = [{"text": t, "entities": [r.to_dict() for r in engine.analyze(t, "en")]} for t in …]
        write_entities(found, "found.jsonl")
        # calibrant fit --entities found.jsonl gold.jsonl -o entities.json
        honest = CalibratedAnalyzer(engine, load_entity_calibrator("entities.json"),
                                    thresholds={"PERSON": 0.7, "EMAIL_ADDRESS": 0.2})
        honest.analyze("Rosa Lind, rosa@example.org", language="en")

    ``thresholds`` is the least confidence to keep: one number, or one per type; a type without one
    is always kept. Because confidences are honest, 0.7 means that about 70 % of the entities right
    at the threshold are right. Presidio's own ``score_threshold`` is about its own scores.
    """

    def __init__(
        self,
        engine: Any,
        calibrator: EntityCalibrator,
        thresholds: float | Mapping[str, float] = 0.0,
    ) -> None:
        self.engine, self.calibrator, self.thresholds = engine, calibrator, thresholds
        values = thresholds.values() if isinstance(thresholds, Mapping) else [thresholds]
        if not all(0 <= value <= 1 for value in values):
            raise InputError(f"Thresholds must be between 0 and 1, got {thresholds}.")

    def analyze(self, text: str, *arguments: Any, **options: Any) -> list[Any]:
        """Return Presidio's results with confidences, without those below their threshold."""
        results = [copy.copy(r) for r in self.engine.analyze(text, *arguments, **options)]
        entities = [Entity(r.start, r.end, r.entity_type, float(r.score)) for r in results]
        for result, confidence in zip(results, self.calibrator.confidence(entities), strict=True):
            result.score = float(confidence)
        return [r for r in results if r.score >= self._threshold(r.entity_type)]

    def _threshold(self, kind: str) -> float:
        if isinstance(self.thresholds, Mapping):
            return self.thresholds.get(kind, 0.0)
        return self.thresholds

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # What copying needs before there is a engine.
            raise AttributeError(name)
        return getattr(self.engine, name)
