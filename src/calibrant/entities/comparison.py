"""Compare calibrators of entity scores: those of the score alone, and that of type and length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.comparison import Comparison, compare
from calibrant.entities.calibrator import EntityCalibrator
from calibrant.entities.matching import EntityColumns, Match, MatchedEntities
from calibrant.errors import InputError

__all__ = ["ENTITIES", "compare_entities"]

ENTITIES = "entities"  # The calibrator of score, type and length, in a comparison.
_DOCUMENT, _LENGTH = "sentence", "length"  # Documents are held out and drawn as sentences are.


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
    ours, theirs = _claims(valid, match), _claims(test, match)
    return compare(ours, theirs, more=more, progress=progress, **options)


def _claims(matched: MatchedEntities, match: Match) -> Claims:
    """Return the claims that each predicted entity is right."""
    if not matched.scored:
        raise InputError("Entities are compared by their scores, and these have none.")
    columns = matched.predicted
    return Claims.from_top_label(
        columns.type,
        columns.score,
        correct=matched.right[match],
        groups={_DOCUMENT: matched.predicted_document},
        signals={_LENGTH: columns.length.astype(np.float32)},
    )


class _OfScoreTypeAndLength:
    """The entity calibrator in the place of a calibrator of claims."""

    name = ENTITIES

    def __init__(self, matched: MatchedEntities, match: Match) -> None:
        self.matched, self.match = matched, match
        self.calibrator = EntityCalibrator()
        self.fitted_on_: dict[str, Any] = {"warnings": []}

    def fit(self, claims: Claims) -> _OfScoreTypeAndLength:
        """Learn from the entities of the claims."""
        document = np.asarray(claims.groups[_DOCUMENT])
        part = replace(
            self.matched,
            predicted=_columns(claims),
            predicted_document=document,
            right={self.match: claims.correct},
        )
        self.calibrator.fit(part, self.match)
        return self

    def transform(self, claims: Claims) -> Claims:
        """Return the claims with learned confidences."""
        return claims.with_confidence(self.calibrator.confidence(_columns(claims)))


def _columns(claims: Claims) -> EntityColumns:
    kinds: Any = claims.text("about")
    length = np.asarray(claims.signals[_LENGTH], np.int64)
    return EntityColumns(np.asarray(claims.confidence), kinds, length)
