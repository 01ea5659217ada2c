"""Turn the decisions of reviewers into labels: for entities, and for the words of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.entities import Document, Entity, MatchedEntities, match_entities
from calibrant.errors import InputError, printable
from calibrant.files import LABELLED
from calibrant.predictions import IGNORED
from calibrant.reviewing.decisions import Decision, Decisions
from calibrant.reviewing.documents import Span
from calibrant.tasks.label_matching import in_tags_of
from calibrant.tasks.language.marked_text import cut_text
from calibrant.tasks.language.splitter_choice import Cutting

if TYPE_CHECKING:
    from calibrant.predictions import Predictions

__all__ = ["check_complete", "label_words", "matched_decisions", "reviewed_part", "word_tags"]


def matched_decisions(
    decisions: Decisions, renamed: Mapping[str, str | None] | None = None, *, scores: bool = True
) -> MatchedEntities:
    """Return the entities that were shown next to those that the reviewers decided on.

    Both have the same names of types. ``renamed`` and ``scores`` are those of
    :func:`~calibrant.entities.match_entities`.
    """
    found = list(decisions.latest.values())
    if not found:
        raise InputError(f"{decisions.path} has no decisions yet.")
    kept = {span.type: span.type for one in found for span in one.predicted}
    return match_entities(
        [_document(one, one.predicted) for one in found],
        [_document(one, one.entities) for one in found],
        renamed={**kept, **(renamed or {})},
        scores=scores,
    )


def _document(decision: Decision, spans: Iterable[Span]) -> Document:
    found = tuple(Entity(s.start, s.end, s.type, s.confidence) for s in spans)
    return Document(found, decision.document, decision.text)


def check_complete(decisions: Decisions) -> None:
    """Refuse a review with open documents: the least certain ones come first.

    What is decided so far is no random sample, so that no promise about new documents follows.
    """
    if (part := reviewed_part(decisions)) is not None:
        raise InputError(
            f"{part} A promise needs all of them, or all of a random sample ('calibrant review "
            "--sample N')."
        )


def reviewed_part(decisions: Decisions) -> str | None:
    """Return how many documents are reviewed so far, or None if no document is open."""
    size, done = decisions.size, len(decisions.latest)
    if size is None or done >= size:
        return None
    return (
        f"{printable(str(decisions.path))}: {done:,} of {size:,} documents are reviewed, the least "
        "certain first."
    )


def word_tags(
    texts: Iterable[tuple[str, str]],
    decisions: Mapping[str, Decision],
    cutting: Cutting,
    labels: Sequence[str],
) -> tuple[list[tuple[str, ...] | None], int]:
    """Return the tags of each sentence of ``texts`` (id and text), and how many are decided.

    A sentence of a text without a decision has None. The sentences are those that a run cuts.
    """
    tags: list[tuple[str, ...] | None] = []
    decided = 0
    for name, text in texts:
        decision = decisions.get(name)
        if decision is not None and decision.text != text:
            raise InputError(f"The text '{name}' is not the one that was reviewed.")
        spans = [(s.start, s.end, s.type) for s in decision.entities] if decision else []
        cut = cut_text(text, spans, cutting.splitter, sentences=cutting.sentences, where=name)
        decided += decision is not None
        for sentence in cut:
            if sentence.words:
                tags.append(None if decision is None else in_tags_of(labels, sentence.tags))
    return tags, decided


def label_words(
    parts: Iterable[Predictions], tags: Sequence[Sequence[str] | None]
) -> Iterator[Predictions]:
    """Set the labels of words, one row each, whose sentence has ``tags``.

    A word that reviewers gave a type which the model lacks counts as unlabelled: no class of the
    model is its label.
    """
    for part in parts:
        numbers = {name: number for number, name in enumerate(part.names)}
        places = zip(
            np.asarray(part.groups["sentence"]).tolist(),
            np.asarray(part.groups["position"]).tolist(),
            strict=True,
        )
        found = np.array([_number(tags[row], place, numbers) for row, place in places], np.int64)
        known = found != IGNORED
        groups: dict[str, Any] = {**part.groups, LABELLED: known}
        yield replace(part, labels=np.where(known, found, 0), groups=groups)


def _number(tags: Sequence[str] | None, place: int, numbers: Mapping[str, int]) -> int:
    return IGNORED if tags is None else numbers.get(tags[place], IGNORED)
