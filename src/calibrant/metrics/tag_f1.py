"""F1 of tags and of entities, from additive counts of right, predicted and gold ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, overload

import numpy as np

from calibrant.arguments import check_kind
from calibrant.errors import InputError
from calibrant.metrics.spans import Mode, Tagging, lost_entities
from calibrant.metrics.state_bytes import check_complete, json_column, json_object
from calibrant.metrics.tags import TagSet
from calibrant.predictions import Predictions

__all__ = ["MatchCounts", "entity_counts", "entity_f1", "f1_of_counts", "token_counts", "token_f1"]


@dataclass(frozen=True, eq=False)
class MatchCounts:
    """Counts per entity type: predicted, gold and both.

    Arrays of shape (T,), with leading axes where there are many states (blocks of a bootstrap,
    replicates). Counts of two shards add up to those of the whole where no sentence is split.

    >>> a = MatchCounts(("PER",), np.array([1]), np.array([2]), np.array([1]))
    >>> f1_of_counts(a), f1_of_counts(a + a)
    (0.6666666666666666, 0.6666666666666666)
    """

    types: tuple[str, ...]
    correct: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray

    SUMS: ClassVar[tuple[str, ...]] = ("correct", "predicted", "gold")

    @property
    def n(self) -> np.ndarray:
        """The number predicted plus the number gold: zero for an empty block."""
        return np.asarray(self.predicted + self.gold)

    def __add__(self, other: MatchCounts) -> MatchCounts:
        if not isinstance(other, MatchCounts):
            return NotImplemented
        if self.types != other.types:
            raise InputError(
                f"Counts of different entity types cannot be added: {self.types} and {other.types}."
            )
        return replace(self, **{s: getattr(self, s) + getattr(other, s) for s in self.SUMS})

    def __radd__(self, other: object) -> MatchCounts:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.

    def total(self) -> MatchCounts:
        """Sum over the leading axes."""
        lead = tuple(range(self.gold.ndim - 1))
        return replace(self, **{s: getattr(self, s).sum(axis=lead) for s in self.SUMS})

    def resampled(self, weights: np.ndarray) -> MatchCounts:
        """Return counts of bootstrap replicates: (R, G) weights times the counts of G blocks."""
        return replace(self, **{s: weights @ getattr(self, s) for s in self.SUMS})

    def to_json(self) -> str:
        """Return one line of JSON; :meth:`from_json` restores the same counts."""
        sums = {s: getattr(self, s).tolist() for s in self.SUMS}
        return json.dumps({"types": list(self.types), **sums})

    @classmethod
    def from_json(cls, text: str) -> MatchCounts:
        """Read the output of :meth:`to_json`."""
        content = json_object(cls.__name__, text)
        check_complete(cls.__name__, ("types", *cls.SUMS), content, "from_json")
        sums = [json_column(cls.__name__, s, content[s], np.int64) for s in cls.SUMS]
        types = content["types"]
        if not isinstance(types, list) or {s.shape[-1:] for s in sums} != {(len(types),)}:
            raise InputError(
                f"from_json: the {cls.__name__} must have one count per entity type, got types "
                f"{types!r} and shapes {', '.join(str(s.shape) for s in sums)}."
            )
        return cls(tuple(map(str, types)), *sums)


def f1_of_counts(counts: MatchCounts, *, by_type: bool = False) -> Any:
    """F1 = 2 · correct / (predicted + gold): micro over the types, or one number per type.

    The result is NaN if nothing is predicted and nothing is gold.

    >>> one, two = np.array([1, 0]), np.array([1, 1])
    >>> f1_of_counts(MatchCounts(("LOC", "PER"), correct=one, predicted=two, gold=one))
    0.6666666666666666
    """
    check_kind("f1_of_counts", counts, MatchCounts)
    sums = [getattr(counts, s) if by_type else getattr(counts, s).sum(axis=-1) for s in counts.SUMS]
    correct, predicted, gold = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.asarray(2 * correct / (predicted + gold))
    return float(value) if value.ndim == 0 else value


@overload
def token_f1(source: Predictions, *, by_type: Literal[False] = False) -> float: ...
@overload
def token_f1(source: Predictions | MatchCounts, *, by_type: bool = False) -> Any: ...
def token_f1(source: Predictions | MatchCounts, *, by_type: bool = False) -> Any:
    """Micro F1 over the tags other than O: 2 · right / (predicted + gold), tags equal exactly.

    >>> names = ["O", "B-PER", "I-PER"]
    >>> p = Predictions.from_logits(np.eye(3)[[0, 1, 1]], [0, 1, 2], label_names=names)
    >>> token_f1(p)
    0.5
    """
    counts = source if isinstance(source, MatchCounts) else token_counts(source)
    return f1_of_counts(counts, by_type=by_type)


@overload
def entity_f1(
    source: Predictions, mode: Mode = "default", *, by_type: Literal[False] = False
) -> float: ...
@overload
def entity_f1(
    source: Predictions | MatchCounts, mode: Mode = "default", *, by_type: bool = False
) -> Any: ...
def entity_f1(
    source: Predictions | MatchCounts, mode: Mode = "default", *, by_type: bool = False
) -> Any:
    """Micro F1 over entities; one is right if its start, its end and its type all are.

    Equal to seqeval in its default mode, or with ``mode="strict"`` in strict IOB2 (BIOES for such
    tags); see :func:`~calibrant.metrics.spans.find_spans`. NaN where there is no entity at all,
    for which seqeval returns 0. With a group ``unfit``, entities that are not made of whole words
    count as missed.

    >>> names = ["O", "B-PER", "I-PER"]
    >>> p = Predictions.from_logits(np.eye(3)[[0, 1, 0, 1]], [0, 1, 2, 1], label_names=names)
    >>> entity_f1(p)
    0.5
    """
    counts = source if isinstance(source, MatchCounts) else entity_counts(source, mode)
    return f1_of_counts(counts, by_type=by_type)


def entity_counts(
    predictions: Predictions,
    mode: Mode = "default",
    *,
    block: np.ndarray | None = None,
    blocks: int = 0,
    tagging: Tagging | None = None,
) -> MatchCounts:
    """Count right, predicted and gold entities per type; with ``block``, per block and type.

    ``tagging`` saves reading the spans again, here and in the functions below.

    >>> names = ["O", "B-LOC", "B-PER"]
    >>> p = Predictions.from_logits(np.eye(3)[[1, 2, 2]], [1, 2, 0], label_names=names)
    >>> counts = entity_counts(p)
    >>> counts.types, counts.correct, counts.predicted, counts.gold
    (('LOC', 'PER'), array([1, 1]), array([1, 2]), array([1, 1]))
    """
    tagging = tagging or Tagging(predictions, mode)
    predicted, gold, right = tagging.predicted, tagging.gold, tagging.right
    lost = lost_entities(predictions, gold)
    lost_types = tagging.tags.type[tagging.labels[lost]]
    return _counts(
        tagging.tags,
        (predicted.start[right], predicted.type[right]),
        (predicted.start, predicted.type),
        (np.append(gold.start, lost), np.append(gold.type, lost_types)),
        block,
        blocks,
    )


def token_counts(
    predictions: Predictions,
    *,
    block: np.ndarray | None = None,
    blocks: int = 0,
    tagging: Tagging | None = None,
) -> MatchCounts:
    """Count right, predicted and gold tags except O per type; with ``block``, also per block.

    >>> names = ["O", "B-PER", "I-PER"]
    >>> p = Predictions.from_logits(np.eye(3)[[1, 2, 0]], [1, 2, 2], label_names=names)
    >>> counts = token_counts(p)
    >>> counts.types, counts.correct, counts.predicted, counts.gold
    (('PER',), array([2]), array([2]), array([3]))
    """
    tagging = tagging or Tagging(predictions)
    tags, (_, predicted, correct) = tagging.tags, tagging.top
    chosen, true = tags.type[predicted], tags.type[tagging.labels]
    rows = [np.flatnonzero(m) for m in (correct & (true >= 0), chosen >= 0, true >= 0)]
    kinds = [true[rows[0]], chosen[rows[1]], true[rows[2]]]
    right, made, gold = zip(rows, kinds, strict=True)
    return _counts(tags, right, made, gold, block, blocks)


def _counts(
    tags: TagSet,
    right: tuple[np.ndarray, np.ndarray],
    predicted: tuple[np.ndarray, np.ndarray],
    gold: tuple[np.ndarray, np.ndarray],
    block: np.ndarray | None,
    blocks: int,
) -> MatchCounts:
    """Count (row, type) pairs by type, or by block of the row and type."""
    types = len(tags.types)
    shape = (types,) if block is None else (blocks, types)
    tables = []
    for row, kind in (right, predicted, gold):
        cell = kind if block is None else block[row] * types + kind
        tables.append(np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape))
    return MatchCounts(tags.types, *tables)
