"""Compare calibrators of entity scores: those of the score alone, and that of type and length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.comparison import Comparison, compare
from calibrant.entities.calibrator import EntityCalibrator
from calibrant.entities.entity_claims import DOCUMENT, claims_of, columns_of_claims
from calibrant.entities.matching import Match, MatchedEntities

__all__ = ["ENTITIES", "compare_entities"]

ENTITIES = "entities"  # The calibrator of score, type and length, in a comparison.


def compare_entities(
    valid: MatchedEntities,
    test: MatchedEntities,
    match: Match = "strict",
    *,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Compare calibrators of the scores of a tool, and recommend one.

    Each entity is a claim that it is right. ``entities`` is :class:`EntityCalibrator`, which also
    knows type and length; the other calibrators only use the score. ``options`` are those
    of :func:`calibrant.compare`. Whole documents are held out in cross-validation.
    """
    more: Any = (_OfScoreTypeAndLength(valid, match),)
    ours, theirs = claims_of(valid, match), claims_of(test, match)
    return compare(ours, theirs, more=more, progress=progress, **options)


class _OfScoreTypeAndLength:
    """The entity calibrator in the place of a calibrator of claims."""

    name = ENTITIES

    def __init__(self, matched: MatchedEntities, match: Match) -> None:
        self.matched, self.match = matched, match
        self.calibrator = EntityCalibrator()
        self.fitted_on_: dict[str, Any] = {"warnings": []}

    def fit(self, claims: Claims) -> _OfScoreTypeAndLength:
        """Learn from the entities of the claims."""
        document = np.asarray(claims.groups[DOCUMENT])
        part = replace(
            self.matched,
            predicted=columns_of_claims(claims),
            predicted_document=document,
            right={self.match: claims.correct},
        )
        self.calibrator.fit(part, self.match)
        return self

    def transform(self, claims: Claims) -> Claims:
        """Return the claims with learned confidences."""
        return claims.with_confidence(self.calibrator.confidence(columns_of_claims(claims)))
