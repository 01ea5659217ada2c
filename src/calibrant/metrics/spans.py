"""Entity spans from tag sequences, vectorised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import to_numpy
from calibrant.errors import InputError
from calibrant.metrics.confidences import TopLabel, top_label
from calibrant.metrics.tags import BEGIN, END, OUTSIDE, SINGLE, TagSet
from calibrant.predictions import Predictions

__all__ = [
    "Mode",
    "Spans",
    "Tagging",
    "find_spans",
    "lost_entities",
    "matches",
    "sentence_starts",
]

Mode: TypeAlias = Literal["default", "strict"]


@dataclass(frozen=True, eq=False)
class Spans:
    """Entities as rows start..end−1 of the predictions, with the number of their type.

    ``unfit`` marks gold ones whose true edges are inside words: no prediction equals them.

    >>> spans = Spans(start=np.array([0, 4]), end=np.array([2, 5]), type=np.array([1, 0]))
    >>> len(spans), (spans.end - spans.start).tolist()  # Two entities, of two words and of one.
    (2, [2, 1])
    """

    start: np.ndarray
    end: np.ndarray
    type: np.ndarray
    unfit: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.start)


def find_spans(
    labels: np.ndarray, tags: TagSet, starts: np.ndarray, mode: Mode = "default"
) -> Spans:
    """Return the spans that a tag sequence marks; no span crosses a row where ``starts`` is true.

    ``"default"``, like seqeval's default and the conlleval script: a tag other than O opens a span
    if it is B or S, if the tag before it is O, E or S, or if its type differs from the one before;
    so ill-formed sequences and IOB1 are read leniently. ``"strict"``: as seqeval's strict IOB2,
    the span must begin with B; with BIOES tags it must be one S, or B … E.

    >>> tags = TagSet.of(["O", "B-PER", "I-PER"])
    >>> labels, starts = np.array([0, 2, 2, 1, 0]), np.array([True, False, False, False, False])
    >>> spans = find_spans(labels, tags, starts)
    >>> spans.start, spans.end
    (array([1, 3]), array([3, 4]))
    >>> find_spans(labels, tags, starts, mode="strict").start
    array([3])
    """
    if mode not in ("default", "strict"):
        raise InputError(f"mode must be 'default' or 'strict', got {mode!r}.")
    check_kind("find_spans", tags, TagSet)
    for what, given, kinds in (("labels", labels, "iu"), ("starts", starts, "b")):
        if not isinstance(given, np.ndarray) or given.ndim != 1 or given.dtype.kind not in kinds:
            expected = "whole numbers" if kinds == "iu" else "truth values"
            raise InputError(f"find_spans takes {what} as an array (n,) of {expected}.")
    prefix, kind = tags.prefix[labels], tags.type[labels]
    before, kind_before = np.roll(prefix, 1), np.roll(kind, 1)
    inside = prefix != OUTSIDE
    opens = (prefix == BEGIN) | (prefix == SINGLE) | (kind != kind_before) | starts
    opens |= (before == OUTSIDE) | (before == END) | (before == SINGLE)
    opens &= inside
    # Every row that is not O lies in one span, which ends before the next opening, or O.
    breaks = np.flatnonzero(opens | ~inside)
    first = opens[breaks]
    start, end = breaks[first], np.append(breaks[1:], len(labels))[: len(breaks)][first]
    if mode == "strict":
        kept = prefix[start] == BEGIN
        if tags.bioes:
            kept &= prefix[end - 1] == END
            kept |= prefix[start] == SINGLE
        start, end = start[kept], end[kept]
    return Spans(start, end, kind[start])


def sentence_starts(predictions: Predictions) -> np.ndarray:
    """Return which rows begin a sentence: where the group ``sentence`` changes, in reading order.

    With a group ``position``, also where it does not increase, so that two
    sentences of one number that meet at the seam of two shards stay apart. Without a group
    ``sentence`` all rows are one sequence.
    """
    starts = np.zeros(len(predictions), bool)
    starts[:1] = True
    if "sentence" in predictions.groups:
        sentence = predictions.groups["sentence"]
        starts[1:] |= sentence[1:] != sentence[:-1]
        if "position" in predictions.groups:
            position = predictions.groups["position"]
            starts[1:] |= position[1:] <= position[:-1]
    return starts


def matches(predicted: Spans, gold: Spans) -> np.ndarray:
    """Return which predicted spans are also gold: same start, same end, same type."""
    if not len(gold):
        return np.zeros(len(predicted), bool)
    # Spans of one sequence are disjoint and sorted, so the start alone finds the candidate.
    candidate = np.searchsorted(gold.start, predicted.start)
    candidate = np.minimum(candidate, len(gold) - 1)
    same = gold.start[candidate] == predicted.start
    same &= gold.end[candidate] == predicted.end
    if gold.unfit is not None:
        same &= ~gold.unfit[candidate]
    return np.asarray(same & (gold.type[candidate] == predicted.type))


class Tagging:
    """The top labels and spans of predictions with BIO tags, each computed once, if needed.

    ``top`` is what :func:`~calibrant.metrics.top_label` returns, for callers that have it. The
    optional group ``unfit`` counts for each word the true entities that begin there and are not
    made of whole words (:class:`~calibrant.tasks.reading.sentences.Sentence`).
    """

    def __init__(
        self, predictions: Predictions, mode: Mode = "default", top: TopLabel | None = None
    ) -> None:
        check_kind("This metric", predictions, Predictions)
        if predictions.weighted:
            raise InputError(
                "Metrics of entities take no sample weights: these belong to words, and an entity "
                "has several; ece and the other metrics of words take them."
            )
        self.predictions, self.mode = predictions, mode
        self.tags = TagSet.of(predictions.label_names)
        self.labels = to_numpy(predictions.labels)
        self._top = top

    @cached_property
    def top(self) -> TopLabel:
        """Confidence, predicted tag and correctness of each word."""
        return top_label(self.predictions) if self._top is None else self._top

    @cached_property
    def predicted(self) -> Spans:
        """The spans of the predicted tags."""
        return self._spans(self.top[1])

    @cached_property
    def gold(self) -> Spans:
        """The spans of the labels."""
        gold, unfit = self._spans(self.labels), self.predictions.groups.get("unfit")
        if unfit is None or unfit.dtype.kind not in "iu":  # A file may have words in this column.
            return gold
        return replace(gold, unfit=unfit[gold.start] > 0)

    @cached_property
    def right(self) -> np.ndarray:
        """Which predicted spans are gold."""
        return matches(self.predicted, self.gold)

    def inside(self, wanted: np.ndarray) -> np.ndarray:
        """Return the rows whose gold or predicted tag is among the ``wanted`` ones, (K,) bool."""
        return np.flatnonzero(wanted[self.top[1]] | wanted[self.labels])

    def _spans(self, labels: np.ndarray) -> Spans:
        return find_spans(labels, self.tags, self._starts, self.mode)

    @cached_property
    def _starts(self) -> np.ndarray:
        return sentence_starts(self.predictions)


def lost_entities(predictions: Predictions, gold: Spans) -> np.ndarray:
    """Return the row of each true entity that no label shows because it shares its words."""
    if gold.unfit is None:
        return np.empty(0, np.int64)
    more = np.array(predictions.groups["unfit"], np.int64)
    more[gold.start[gold.unfit]] -= 1
    return np.repeat(np.arange(len(more)), more)
