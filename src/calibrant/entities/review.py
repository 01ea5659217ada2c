"""Choose which of a tool's entities to send to review, so that few true ones are missed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.entities.matching import Match, MatchedEntities
from calibrant.errors import InputError
from calibrant.policies import Items, Policy, guarantee_items
from calibrant.policies.learning import with_floor
from calibrant.policies.missed import FLOOR, Reach, reviewed_policy

__all__ = ["gold_reach", "guarantee_entities"]

_UNIT = "document"  # Documents are drawn independently.
_UNTOUCHED = (
    "No predicted entity touches them: let the tool return more, with lower scores, or use a "
    "larger share."
)
_HIDDEN = (
    "No predicted entity touches them, or only wrong ones with a score of "
    f"{FLOOR:g} or more, which --target-risk may accept: leave --target-risk out, let the tool "
    "return more, or use a larger share."
)


def guarantee_entities(
    found: MatchedEntities,
    *,
    target_risk: float | None = None,
    max_missed: float | None = None,
    level: float = 0.9,
    on_average: bool = False,
    per: str | None = None,
    average: str = "rows",
    match: Match = "strict",
    run: Mapping[str, str | None] | None = None,
) -> Policy:
    """Learn a policy for the scored entities of a tool, as ``calibrant.guarantee`` does for logits.

    ``max_missed`` sends predicted entities with at least a certain score to review: at most this
    share of the true entities of a document is neither accepted nor touched by a reviewed entity.
    ``run`` has the fingerprints of the run that predicted the entities: a single threshold is then
    also a policy of this run.
    """
    if target_risk is None and max_missed is None:
        raise InputError("Entities need --target-risk, --max-missed or both.")
    if not found.scored:
        raise InputError("A guarantee needs entities with scores; --without-scores has none.")
    settings: dict[str, Any] = {"source": "entities", "renamed": dict(found.renamed)}
    if run is not None and max_missed is None and per is None and match == "strict":
        settings["run"] = dict(run)
    about: dict[str, Any] = {"classes": 0, "label_names": found.types if per else None}
    about |= {"settings": settings}
    policy = None
    if target_risk is not None:
        items = _items(found, match)
        made = items if max_missed is None else with_floor(items)
        policy = guarantee_items(made, target_risk, level, per=per, average=average, **about)
        if max_missed is None:
            return policy
    assert max_missed is not None
    values = gold_reach(found, None if policy is None else match)
    why = _UNTOUCHED if policy is None else _HIDDEN
    reach = Reach(values, found.gold_document, _UNIT, found.predicted.score, "entities", why)
    surely = None if on_average else level
    return reviewed_policy(reach, max_missed, surely, about, policy=policy)


def _items(found: MatchedEntities, match: Match) -> Items:
    types = found.types
    kinds = np.array([types.index(name) for name in found.predicted.type.tolist()], np.int64)
    groups = found.predicted_document
    return Items(found.predicted.score, found.right[match], kinds, types, groups, _UNIT, "entities")


def gold_reach(found: MatchedEntities, accepting: Match | None = None) -> np.ndarray:
    """Return the score up to which each gold entity is found, −∞ if nothing touches it.

    It is the largest score of the predicted entities that share a character with it. If
    entities may be accepted, a person does not see the accepted ones. A predicted entity with a
    score of at least :data:`~calibrant.policies.missed.FLOOR` then counts only if it matches the
    gold entity (``accepting``).

    >>> from calibrant.entities import Document, Entity, match_entities
    >>> predicted = [Document((Entity(0, 4, "PER", 0.9), Entity(5, 9, "LOC", 0.6)))]
    >>> gold = [Document((Entity(0, 4, "PER"), Entity(6, 12, "LOC"), Entity(20, 22, "LOC")))]
    >>> matched = match_entities(predicted, gold)
    >>> gold_reach(matched), gold_reach(matched, "strict")
    (array([ 0.9,  0.6, -inf]), array([ 0.9, -inf, -inf]))
    """
    order = np.argsort(found.predicted_document, kind="stable")
    documents = found.predicted_document[order]
    values = np.full(len(found.gold_document), -np.inf)
    for row, (document, (start, end)) in enumerate(
        zip(found.gold_document.tolist(), found.gold_span.tolist(), strict=True)
    ):
        own = order[slice(*np.searchsorted(documents, [document, document + 1]))]
        spans, scores = found.predicted_span[own], found.predicted.score[own]
        seen = (spans[:, 0] < end) & (start < spans[:, 1])
        if accepting is not None:
            matches = found.predicted.type[own] == found.gold_type[row]
            if accepting == "strict":
                matches &= (spans == (start, end)).all(axis=1)
            seen &= matches | (scores < FLOOR)
        values[row] = scores[seen].max(initial=-np.inf)
    return values
