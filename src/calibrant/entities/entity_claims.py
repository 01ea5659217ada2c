"""Entities as claims: each predicted entity claims to be right, with its score as probability."""

from __future__ import annotations

import numpy as np

from calibrant.claims import Claims
from calibrant.encoding import Encoded
from calibrant.entities.matching import EntityColumns, Match, MatchedEntities
from calibrant.errors import InputError

__all__ = ["DOCUMENT", "claims_of", "columns_of_claims", "unjudged_claims"]

DOCUMENT = "sentence"  # Documents are held out and drawn as sentences are.
_LENGTH = "length"


def claims_of(matched: MatchedEntities, match: Match) -> Claims:
    """Return the claims that each predicted entity is right."""
    if not matched.scored:
        raise InputError(
            "Calibrators of scores need entities with scores, and these have none; the default of "
            "'calibrant fit --entities' also learns from type and length."
        )
    right, document = matched.right[match], matched.predicted_document
    return _claims(matched.predicted, right, {DOCUMENT: document})


def unjudged_claims(columns: EntityColumns) -> Claims:
    """Return the claims of entities whose truth is not known, for ``transform``."""
    return _claims(columns, np.zeros(len(columns), bool), {})


def _claims(columns: EntityColumns, right: np.ndarray, groups: dict[str, np.ndarray]) -> Claims:
    signals = {_LENGTH: columns.length.astype(np.float32)}
    names = {name: place for place, name in enumerate(dict.fromkeys(columns.type.tolist()))}
    # Types are names as they are, also nan and 1.0.
    kinds = Encoded(np.array([names[name] for name in columns.type], np.int64), tuple(names))
    return Claims.from_top_label(
        kinds, columns.score, correct=right, groups=groups, signals=signals
    )


def columns_of_claims(claims: Claims) -> EntityColumns:
    """Return the entities that the claims were made of."""
    kinds = claims.text("about")
    assert kinds is not None
    length = np.asarray(claims.signals[_LENGTH], np.int64)
    return EntityColumns(np.asarray(claims.confidence), kinds, length)
