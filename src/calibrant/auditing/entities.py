"""The entity part of an audit: whole sentences out of chunks, then additive counts and states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from calibrant.auditing.estimate import Estimator
from calibrant.auditing.record import ClassRow, EntityView
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    MatchCounts,
    accumulate,
    assign_blocks,
    bin_confidences,
    risk_points,
)
from calibrant.metrics.entities import Reduction
from calibrant.metrics.measure import tag_sources
from calibrant.metrics.spans import Tagging
from calibrant.predictions import Predictions

__all__ = ["Columns", "EntitySums", "Sentences", "entity_sums", "entity_view", "learned_entities"]

Columns: TypeAlias = tuple[np.ndarray, ...]
_MOST_BLOCKS = 1000
_LEARNED = "learned"


class Sentences:
    """Cuts a stream of chunks where a sentence ends, so that no entity is cut in two.

    Each chunk comes with columns that have a value per row, and these are cut in the same way.
    Without a ``sentence`` group no end of a sentence is known: the stream is kept to its end.
    The first sentence of a ``part`` of a whole may have begun before it: it is held in ``head``.
    """

    def __init__(self, *, part: bool = False) -> None:
        self._waiting: list[tuple[Predictions, Columns]] = []
        self._part = part
        self.head: tuple[Predictions, Columns] | None = None

    def whole(self, chunk: Predictions, *columns: np.ndarray) -> tuple[Predictions, Columns] | None:
        """Return the sentences that are complete with this chunk."""
        ids = chunk.groups.get("sentence")
        starts = [] if ids is None else (np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist()
        if not starts:
            self._waiting.append((chunk, columns))
            return None
        if self._part and self.head is None:
            begun, chunk, columns = _cut_at(starts[0], chunk, columns)
            self._waiting.append(begun)
            self.head = self.rest()
            return self.whole(chunk, *columns)
        done, left, columns = _cut_at(starts[-1], chunk, columns)
        self._waiting.append(done)
        complete = self.rest()
        self._waiting = [(left, columns)]
        return complete

    def rest(self) -> tuple[Predictions, Columns] | None:
        """Return what is left at the end of the stream."""
        if not self._waiting:
            return None
        chunks, columns = zip(*self._waiting, strict=True)
        self._waiting = []
        joined = tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))
        return Predictions.concatenate(list(chunks)), joined


def _cut_at(
    row: int, chunk: Predictions, columns: Columns
) -> tuple[tuple[Predictions, Columns], Predictions, Columns]:
    """Return the rows before ``row`` with their columns, then the others, and theirs."""
    before = chunk[:row], tuple(column[:row] for column in columns)
    return before, chunk[row:], tuple(column[row:] for column in columns)


@dataclass(frozen=True, eq=False)
class EntitySums:
    """The sources of the metrics of entities (:class:`~calibrant.metrics.Metric`) by block."""

    entities: CalibrationState  # (blocks, types, …): confidence of the predicted entities
    entity_counts: MatchCounts
    token_counts: MatchCounts
    without_o: CalibrationState  # tokens whose gold or predicted tag is not O
    entity_confidences: Confidences | ConfidenceSketch

    def sketched(self) -> EntitySums:
        """Return the sums with a sketch of the confidences, whose size does not grow."""
        assert isinstance(self.entity_confidences, Confidences)
        return replace(self, entity_confidences=ConfidenceSketch.of(self.entity_confidences))

    def __add__(self, other: EntitySums) -> EntitySums:
        names = [f.name for f in fields(self)]
        return EntitySums(*(getattr(self, name) + getattr(other, name) for name in names))


def entity_sums(
    part: Predictions,
    tagging: Tagging,
    block: np.ndarray,
    blocks: int,
    bins: Bins,
    reduction: Reduction,
) -> EntitySums:
    """Return the sums of whole sentences; ``block`` is that of each token."""
    return EntitySums(**tag_sources(part, tagging, bins, reduction, block, blocks, by_type=True))


def entity_view(
    sums: EntitySums, tokens: CalibrationState, reduction: str, estimate: Estimator
) -> EntityView:
    """Return the measures of entities; ``tokens`` is the blocked state of all tokens, for APCR."""
    types = {name: getattr(sums.entities, name) for name in CalibrationState.SUMS}
    entities = replace(sums.entities, **{name: table.sum(axis=1) for name, table in types.items()})
    confidence = "learned confidence" if reduction == _LEARNED else f"{reduction} of words"
    measures = estimate("tags", {**vars(sums), "entities": entities, "state": tokens})
    measures = tuple(
        replace(m, title=f"{m.title} ({confidence})") if m.name == "entity_ece" else m
        for m in measures
    )
    at_risk = risk_points(sums.entity_confidences)
    return EntityView(measures, entities.total(), reduction, _type_rows(sums), at_risk)


def learned_entities(
    words: Predictions,
    calibrated: Predictions,
    reduction: Reduction,
    learned: np.ndarray,
    *,
    bootstrap: int = 1000,
) -> EntityView:
    """Return the view of entities whose confidence is learned, as ``calibrant predict`` gives it.

    ``learned`` is the confidence of each entity, from the ``reduction`` of those of its ``words``
    (:class:`~calibrant.comparison.SpanCalibrator`); ``calibrated`` are the words as they are given.

    >>> import numpy as np
    >>> names = ["O", "B-PER"]
    >>> scores = [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]
    >>> words = Predictions.from_probabilities(scores, [1, 0, 0], label_names=names)
    >>> view = learned_entities(words, words, "product", np.array([0.8, 0.4]), bootstrap=0)
    >>> {m.name: round(m.value, 2) for m in view.measures if m.name in ("entity_f1", "entity_ece")}
    {'entity_f1': 0.67, 'entity_ece': 0.3}
    """
    block, bins, tagging = assign_blocks(words), Bins(), Tagging(words)
    sums = entity_sums(words, tagging, block, _MOST_BLOCKS, bins, reduction)
    each = sums.entity_confidences
    assert isinstance(each, Confidences)
    mapped = replace(each, confidence=learned, given=np.asarray(learned).dtype.name)
    cells = (_MOST_BLOCKS, len(tagging.tags.types))
    cell = np.asarray(mapped.block) * cells[1] + tagging.predicted.type
    rows = Tagging(calibrated).inside(tagging.tags.type >= 0)
    blocked: dict[str, Any] = {"bins": bins, "classwise": False, "blocks": _MOST_BLOCKS}
    sums = replace(
        sums,
        entities=bin_confidences(mapped, bins, cell=cell, cells=cells),
        entity_confidences=mapped,
        without_o=accumulate(calibrated[rows], block=block[rows], **blocked),
    )
    tokens = accumulate(calibrated, block=block, **blocked)
    return entity_view(sums, tokens, _LEARNED, Estimator(bootstrap))


def _type_rows(sums: EntitySums) -> tuple[ClassRow, ...]:
    """Return the entities of each type, the furthest off first."""
    n, right = sums.entities.n.sum(axis=0), sums.entities.correct.sum(axis=0)
    claimed = sums.entities.top_confidence.sum(axis=(0, -1))
    rows = [
        ClassRow(name, int(gold), int(count), float(c / count), float(a / count))
        for name, gold, count, c, a in zip(
            sums.entity_counts.types,
            sums.entity_counts.gold.sum(axis=0),
            n,
            claimed,
            right,
            strict=True,
        )
        if count
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.gap)))
