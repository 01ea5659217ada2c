"""The entity part of an audit: whole sentences out of chunks, then additive counts and states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from calibrant.auditing.estimate import Estimator
from calibrant.auditing.record import ClassRow, EntityView
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    MatchCounts,
    accumulate,
    accuracy,
    assign_blocks,
    auroc,
    bin_confidences,
    ece,
    entity_confidences,
    entity_counts,
    entity_state,
    f1,
    mean_confidence,
    token_counts,
    without_outside,
)
from calibrant.metrics.entities import Reduction, entity_types
from calibrant.predictions import Predictions

__all__ = ["EntitySums", "Sentences", "entity_sums", "entity_view", "learned_entities"]

_MOST_BLOCKS = 1000
_LEARNED = "learned"


class Sentences:
    """Cuts a stream of chunks where a sentence ends, so that no entity is cut in two.

    Without a ``sentence`` group nothing tells where one ends, and the stream is kept to its end.
    """

    def __init__(self) -> None:
        self._waiting: list[Predictions] = []

    def whole(self, chunk: Predictions) -> Predictions | None:
        """The sentences that are complete with this chunk."""
        ids = chunk.groups.get("sentence")
        starts = [] if ids is None else (np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist()
        if not starts:
            self._waiting.append(chunk)
            return None
        cut = starts[-1]
        done, self._waiting = [*self._waiting, chunk[:cut]], [chunk[cut:]]
        return Predictions.concatenate(done)

    def rest(self) -> Predictions | None:
        """What is left at the end of the stream."""
        return Predictions.concatenate(self._waiting) if self._waiting else None


@dataclass(frozen=True, eq=False)
class EntitySums:
    """Additive, with a leading axis of bootstrap blocks."""

    entities: CalibrationState  # (blocks, types, …): confidence of the predicted entities
    counts: MatchCounts
    tokens: MatchCounts
    inside: CalibrationState  # tokens whose gold or predicted tag is not O
    confidences: Confidences

    def __add__(self, other: EntitySums) -> EntitySums:
        names = [f.name for f in fields(self)]
        return EntitySums(*(getattr(self, name) + getattr(other, name) for name in names))


def entity_sums(
    part: Predictions, block: np.ndarray, blocks: int, bins: Bins, reduction: Reduction
) -> EntitySums:
    """The sums of whole sentences; ``block`` is that of each token."""
    # The block travels as a group, because rows are dropped on the way.
    inside = without_outside(replace(part, groups={**part.groups, "block": block}))
    where = inside.groups["block"]
    return EntitySums(
        entity_state(part, bins, reduction=reduction, by_type=True, block=block, blocks=blocks),
        entity_counts(part, block=block, blocks=blocks),
        token_counts(part, block=block, blocks=blocks),
        accumulate(inside, bins, classwise=False, block=where, blocks=blocks),
        entity_confidences(part, reduction=reduction, block=block),
    )


def entity_view(
    sums: EntitySums, tokens: CalibrationState, reduction: str, estimate: Estimator
) -> EntityView:
    """The measures of entities; ``tokens`` is the blocked state of all tokens, for APCR."""
    types = {name: getattr(sums.entities, name) for name in CalibrationState.SUMS}
    entities = replace(sums.entities, **{name: table.sum(axis=1) for name, table in types.items()})
    confidence = "learned confidence" if reduction == _LEARNED else f"{reduction} of words"
    measures = (
        estimate("entity_f1", "Entity F1", f1, sums.counts),
        estimate("token_f1", "Token F1", f1, sums.tokens),
        estimate("entity_accuracy", "Entity precision", accuracy, entities),
        estimate("entity_confidence", "Mean entity confidence", mean_confidence, entities),
        estimate("entity_ece", f"Entity ECE ({confidence})", ece, entities),
        estimate("entity_auroc", "Entity AUROC", auroc, sums.confidences),
        estimate("ece_without_o", "ECE without O", ece, sums.inside),
        estimate("apcr", "APCR (entity F1² / ECE)", _apcr, sums.counts, tokens),
    )
    return EntityView(measures, entities.total(), reduction, _type_rows(sums))


def learned_entities(
    words: Predictions,
    calibrated: Predictions,
    reduction: Reduction,
    learned: Callable[[np.ndarray], np.ndarray],
    *,
    bootstrap: int = 1000,
) -> EntityView:
    """The view of entities whose confidence is learned, as ``calibrant predict`` gives it.

    ``learned`` maps the ``reduction`` of the confidences of an entity's ``words``
    (:class:`~calibrant.comparison.EntityMap`); ``calibrated`` are the words as they are given.
    """
    block, bins = assign_blocks(words), Bins()
    sums = entity_sums(words, block, _MOST_BLOCKS, bins, reduction)
    mapped = replace(sums.confidences, confidence=learned(sums.confidences.confidence))
    types = entity_types(words)
    cell = np.asarray(mapped.block) * len(sums.counts.types) + types
    cells = (_MOST_BLOCKS, len(sums.counts.types))
    state = bin_confidences(mapped, bins, cell=cell, cells=cells)
    inside = entity_sums(calibrated, block, _MOST_BLOCKS, bins, reduction).inside
    sums = replace(sums, entities=state, confidences=mapped, inside=inside)
    tokens = accumulate(calibrated, bins, classwise=False, block=block, blocks=_MOST_BLOCKS)
    return entity_view(sums, tokens, _LEARNED, Estimator(bootstrap))


def _apcr(counts: MatchCounts, tokens: CalibrationState) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(f1(counts))
        return np.where(found == 0, np.nan, np.divide(np.square(found), ece(tokens)))


def _type_rows(sums: EntitySums) -> tuple[ClassRow, ...]:
    """Entities of each type, the furthest off first."""
    n, right = sums.entities.n.sum(axis=0), sums.entities.correct.sum(axis=0)
    claimed = sums.entities.top_confidence.sum(axis=(0, -1))
    rows = [
        ClassRow(name, int(gold), int(count), float(c / count), float(a / count))
        for name, gold, count, c, a in zip(
            sums.counts.types, sums.counts.gold.sum(axis=0), n, claimed, right, strict=True
        )
        if count
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.gap)))
