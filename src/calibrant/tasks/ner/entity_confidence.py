"""Confidences of entities, and the threshold to accept them, both learned on validation."""

from __future__ import annotations

import functools

from calibrant.calibrators import Calibrator
from calibrant.comparison.entity_map import AUTO, EntityMap, new_entity_words
from calibrant.comparison.risk_control import THRESHOLDS, Guarantee, guaranteed_threshold
from calibrant.predictions import Predictions

__all__ = ["EntityConfidence"]


class EntityConfidence:
    """A map of words with the raw validation predictions that it was fitted on.

    Both are of words that were cut in one way: those of the corpus, or those of raw text.
    """

    def __init__(self, calibrator: Calibrator, valid: Predictions) -> None:
        self.calibrator, self.valid = calibrator, valid
        self._entity_maps: dict[str, EntityMap] = {}

    def entity_map(self, reduction: str = AUTO) -> EntityMap:
        """Return the map from words' confidences to their entity's, learned on validation."""
        if reduction not in self._entity_maps:
            self._entity_maps[reduction] = EntityMap(reduction).fit(self.valid_words)
        return self._entity_maps[reduction]

    def threshold(self, target_risk: float, level: float = 0.9, reduction: str = AUTO) -> Guarantee:
        """Find the lowest confidence above which at most ``target_risk`` of the entities are wrong.

        It holds with probability ``level``, for texts like those of the validation split: see
        :mod:`calibrant.comparison.risk_control`.
        """
        together = self.entity_map(reduction)
        found = together.transform(self.valid_words)
        # The map of entities never decreases: thresholds of what it makes are thresholds of what it
        # is given, which stood before validation was seen.
        return guaranteed_threshold(
            found.confidence,
            found.correct,
            target_risk,
            level,
            thresholds=together.apply(THRESHOLDS),
        )

    @functools.cached_property
    def valid_words(self) -> Predictions:
        """The words of validation that entities are made of, calibrated as new ones would be."""
        return new_entity_words(self.calibrator, self.valid)
