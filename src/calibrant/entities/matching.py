"""Predicted entities next to the gold ones of the same texts: which are right, which are missed."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, TypeAlias

import numpy as np

from calibrant.entities.document import Document, Entity, check_document, rename_types
from calibrant.errors import InputError, unknown_name
from calibrant.inputs import shortened

__all__ = ["MATCHES", "EntityColumns", "Match", "MatchedEntities", "columns_of", "match_entities"]

Match: TypeAlias = Literal["strict", "overlapping"]
MATCHES: tuple[Match, ...] = ("strict", "overlapping")


@dataclass(frozen=True, eq=False)
class EntityColumns:
    """What a tool says of its entities, one value each: score (NaN: none), type, length."""

    score: np.ndarray
    type: np.ndarray
    length: np.ndarray

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True, eq=False)
class MatchedEntities:
    """Predicted and gold entities of the same documents.

    ``right[match]`` says of each predicted entity whether it is right, ``found[match]`` of each
    gold one whether it was found. A *strict* match has the same start, end and type. An
    *overlapping* one has the same type and shares at least one character.

    >>> predicted = [Document((Entity(0, 4, "PER", 0.9), Entity(5, 9, "LOC", 0.6)))]
    >>> gold = [Document((Entity(0, 4, "PER"), Entity(5, 12, "LOC")))]
    >>> found = match_entities(predicted, gold)
    >>> found.types, found.right["strict"].tolist(), found.found["overlapping"].tolist()
    (('LOC', 'PER'), [True, False], [True, True])
    """

    documents: int
    predicted: EntityColumns
    predicted_document: np.ndarray
    predicted_span: np.ndarray  # (n, 2): start and end
    right: dict[Match, np.ndarray]
    gold_type: np.ndarray
    gold_document: np.ndarray
    gold_span: np.ndarray  # (n, 2): start and end
    found: dict[Match, np.ndarray]
    names: tuple[str, ...]  # of the documents
    renamed: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of predicted and gold entities, sorted."""
        return tuple(sorted({*self.predicted.type.tolist(), *self.gold_type.tolist()}))

    @property
    def scored(self) -> bool:
        """Whether the entities have scores."""
        return not np.isnan(self.predicted.score).any()


def match_entities(
    predicted: Sequence[Document],
    gold: Sequence[Document],
    *,
    renamed: Mapping[str, str | None] | None = None,
    scores: bool = True,
) -> MatchedEntities:
    """Match the entities of the same documents, paired by id, by text or by order.

    Documents are paired by id where all have one, by text where all texts are there and each is
    unique, and else by their order. A predicted type that gold never has is refused, because it is
    mostly another name of the same type: ``renamed`` gives the name in gold of a predicted type,
    its own name if it is meant, or None to leave the type out, also of gold. ``scores=False``: the
    predictions need no scores.

    >>> predicted = [Document((Entity(0, 4, "PER", 0.9), Entity(5, 9, "LOC", 0.6)))]
    >>> gold = [Document((Entity(0, 4, "PER"), Entity(5, 12, "LOC")))]
    >>> found = match_entities(predicted, gold)
    >>> found.right["strict"], found.right["overlapping"]
    (array([ True, False]), array([ True,  True]))
    """
    renamed = renamed or {}
    _check_renamed(predicted, gold, renamed)
    predicted = rename_types(predicted, renamed)
    gold = rename_types(gold, {kind: None for kind, name in renamed.items() if name is None})
    pairs = _paired(predicted, gold)
    _check_types(predicted, gold, {kind for kind, name in renamed.items() if kind == name})
    _check_scores(predicted, gold, scores)
    right: dict[Match, list[bool]] = {match: [] for match in MATCHES}
    found: dict[Match, list[bool]] = {match: [] for match in MATCHES}
    for ours, theirs in pairs:
        exact = {e.span for e in ours.entities}, {e.span for e in theirs.entities}
        right["strict"] += [e.span in exact[1] for e in ours.entities]
        found["strict"] += [e.span in exact[0] for e in theirs.entities]
        right["overlapping"] += _overlaps(ours.entities, theirs.entities)
        found["overlapping"] += _overlaps(theirs.entities, ours.entities)
    ours_all = [(i, e) for i, (ours, _) in enumerate(pairs) for e in ours.entities]
    gold_all = [(i, e) for i, (_, theirs) in enumerate(pairs) for e in theirs.entities]
    return MatchedEntities(
        documents=len(pairs),
        predicted=columns_of([entity for _, entity in ours_all]),
        predicted_document=np.array([i for i, _ in ours_all], np.int64),
        predicted_span=_spans(ours_all),
        right={match: np.array(values, bool) for match, values in right.items()},
        gold_type=np.array([entity.type for _, entity in gold_all], object),
        gold_document=np.array([i for i, _ in gold_all], np.int64),
        gold_span=_spans(gold_all),
        found={match: np.array(values, bool) for match, values in found.items()},
        names=tuple(ours.id or str(i) for i, (ours, _) in enumerate(pairs, start=1)),
        renamed=dict(renamed),
    )


def _spans(entities: Sequence[tuple[int, Entity]]) -> np.ndarray:
    return np.array([entity.span[:2] for _, entity in entities], np.int64).reshape(-1, 2)


def columns_of(entities: Sequence[Entity]) -> EntityColumns:
    """Return score, type and length of each entity."""
    missing = float("nan")
    return EntityColumns(
        np.array([missing if e.score is None else e.score for e in entities], np.float64),
        np.array([e.type for e in entities], object),
        np.array([e.length for e in entities], np.int64),
    )


def _paired(
    predicted: Sequence[Document], gold: Sequence[Document]
) -> list[tuple[Document, Document]]:
    both = [*predicted, *gold]
    if all(each.id is not None for each in both):
        pairs = _by_key(predicted, gold, "id")
    elif _unique_texts(predicted) and _unique_texts(gold):
        pairs = _by_key(predicted, gold, "text")
    elif len(predicted) != len(gold):
        raise InputError(
            f"PREDICTED has {len(predicted):,} documents and GOLD {len(gold):,}. Unless each has "
            "an id or a text of its own, they are paired by order, and both need all documents."
        )
    else:
        pairs = list(zip(predicted, gold, strict=True))
    for number, (ours, theirs) in enumerate(pairs, start=1):
        _check_pair(ours, theirs, f"document {ours.id or number}")
    return pairs


def _unique_texts(documents: Sequence[Document]) -> bool:
    texts = [each.text for each in documents]
    return None not in texts and len(set(texts)) == len(texts)


def _by_key(
    predicted: Sequence[Document], gold: Sequence[Document], key: str
) -> list[tuple[Document, Document]]:
    tables = []
    for name, documents in (("PREDICTED", predicted), ("GOLD", gold)):
        table: dict[str, Document] = {}
        for each in documents:
            if (value := getattr(each, key)) in table:
                raise InputError(f"{name}: two documents have the {key} '{shortened(value)}'.")
            table[value] = each
        tables.append(table)
    ours, theirs = tables
    for has, lacks, one, other in (
        (ours, theirs, "PREDICTED", "GOLD"),
        (theirs, ours, "GOLD", "PREDICTED"),
    ):
        if missing := [value for value in has if value not in lacks]:
            raise InputError(
                f"{len(missing):,} of {len(has):,} documents of {one} are not in {other}, such as "
                f"the one with the {key} '{shortened(missing[0])}'; both need the same documents, "
                "including those without entities."
            )
    return [(each, theirs[value]) for value, each in ours.items()]


def _check_pair(predicted: Document, gold: Document, where: str) -> None:
    """Require the same text, and spans inside of the text that only the other one has."""
    if predicted.text is not None and gold.text is not None:
        if predicted.text != gold.text:
            raise InputError(f"The text of {where} differs between PREDICTED and GOLD.")
        return
    for one, other, name in ((predicted, gold, "PREDICTED"), (gold, predicted, "GOLD")):
        if other.text is not None:
            check_document(one, f"{name}, {where}", length=len(other.text))


def _types(documents: Sequence[Document]) -> set[str]:
    return {entity.type for document in documents for entity in document.entities}


def _check_renamed(
    predicted: Sequence[Document], gold: Sequence[Document], renamed: Mapping[str, str | None]
) -> None:
    """Refuse new names of types that do not occur: they are misspelt."""
    there = _types(predicted) | _types(gold)
    for kind in renamed:
        if kind not in there:
            raise unknown_name("type", shortened(kind), sorted(there))


def _check_types(predicted: Sequence[Document], gold: Sequence[Document], known: set[str]) -> None:
    ours, theirs = _types(predicted), _types(gold)
    if not ours:
        raise InputError("PREDICTED has no entities: there is nothing to measure.")
    if unknown := sorted(ours - theirs - known):
        has = ", ".join(sorted(theirs)) or "none"
        raise InputError(
            f"The type '{shortened(unknown[0])}' is predicted, but GOLD never has it (it has "
            f"{shortened(has, 120)}); --type {shortened(unknown[0])}=NAME renames it, "
            f"'{shortened(unknown[0])}=' leaves it out, and "
            f"'{shortened(unknown[0])}={shortened(unknown[0])}' counts it as wrong."
        )


def _check_scores(predicted: Sequence[Document], gold: Sequence[Document], needed: bool) -> None:
    with_score, without = (
        sum((e.score is None) == absent for d in predicted for e in d.entities)
        for absent in (False, True)
    )
    if with_score and without:
        raise InputError(
            f"{without:,} of {with_score + without:,} predicted entities have no score; give all "
            "of them one, or none."
        )
    if needed and without:
        swapped = any(e.score is not None for d in gold for e in d.entities)
        raise InputError(
            "PREDICTED has no scores, but GOLD has: are the two files swapped?"
            if swapped
            else "PREDICTED has no scores: is it a second gold file? --without-scores takes the "
            "predictions of a tool that gives none."
        )


def _overlaps(entities: Sequence[Entity], others: Sequence[Entity]) -> list[bool]:
    """Return which entities share a character with one of the others that has the same type."""
    by_type: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for other in others:
        by_type[other.type].append((other.start, other.end))
    reach = {}  # Starts in order, and the farthest end of those up to each
    for kind, spans in by_type.items():
        spans.sort()
        reach[kind] = [s for s, _ in spans], list(accumulate((e for _, e in spans), max))
    return [_touches(entity, *reach.get(entity.type, ([], []))) for entity in entities]


def _touches(entity: Entity, starts: Sequence[int], ends: Sequence[int]) -> bool:
    before = bisect_left(starts, entity.end)
    return before > 0 and ends[before - 1] > entity.start
