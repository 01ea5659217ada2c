"""Texts with entities, as any tool finds them or people mark them, and what must hold for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calibrant.errors import InputError
from calibrant.inputs import shortened

__all__ = ["Document", "Entity", "check_document", "rename_types"]


@dataclass(frozen=True)
class Entity:
    """A span of characters of a text, its type and, for predictions, the tool's score.

    >>> entity = Entity(0, 12, "PER", 0.98)
    >>> entity.span, entity.length
    ((0, 12, 'PER'), 12)
    """

    start: int
    end: int
    type: str
    score: float | None = None

    @property
    def span(self) -> tuple[int, int, str]:
        """What two equal entities share."""
        return self.start, self.end, self.type

    @property
    def length(self) -> int:
        """The number of its characters."""
        return self.end - self.start


@dataclass(frozen=True)
class Document:
    """The entities of one text; ``id`` and ``text`` are None where the source has none.

    >>> text = "Ada Lovelace met Babbage."
    >>> document = Document((Entity(0, 12, "PER", 0.98), Entity(17, 24, "PER", 0.61)), text=text)
    >>> [document.text[entity.start : entity.end] for entity in document.entities]
    ['Ada Lovelace', 'Babbage']
    """

    entities: tuple[Entity, ...]
    id: str | None = None
    text: str | None = None


def check_document(document: Document, where: str, *, length: int | None = None) -> None:
    """Require spans inside of the text, scores in [0, 1] and each entity once.

    ``length`` is that of the text where the document itself has none.

    >>> check_document(Document((Entity(0, 9, "PER"),), text="Rosa"), "gold.jsonl, line 1")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: gold.jsonl, line 1: entity 1 (PER) ends at 9, outside of its text of 4 characters.
    """  # noqa: E501
    length = len(document.text) if document.text is not None else length
    seen = set()
    for number, entity in enumerate(document.entities, start=1):
        if wrong := _wrong(entity, length):
            name = f"entity {number} ({shortened(entity.type)})"
            raise InputError(f"{where}: {name} {wrong}.")
        if entity.span in seen:
            raise InputError(
                f"{where}: entity {number} is a duplicate: {shortened(entity.type)} from "
                f"{entity.start} to {entity.end} occurs twice."
            )
        seen.add(entity.span)


def _wrong(entity: Entity, length: int | None) -> str | None:
    """Say what no entity can be."""
    if entity.start < 0:
        return f"starts at {entity.start}; characters are counted from 0"
    if entity.end <= entity.start:
        return f"ends at {entity.end}, not after its start at {entity.start}"
    if length is not None and entity.end > length:
        return f"ends at {entity.end}, outside of its text of {length} characters"
    if not entity.type:
        return "has an empty type"
    score = entity.score
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        return f"has the score {score:g}; a score is a probability, from 0 to 1"
    return None


def rename_types(
    documents: Sequence[Document], renamed: Mapping[str, str | None]
) -> list[Document]:
    """Return the documents with types under other names; None leaves a type out.

    >>> rename_types([Document((Entity(0, 4, "PERSON"),))], {"PERSON": "PER"})[0].entities[0].type
    'PER'
    """
    if not renamed:
        return list(documents)
    return [replace(each, entities=_renamed(each.entities, renamed)) for each in documents]


def _renamed(entities: Sequence[Entity], renamed: Mapping[str, str | None]) -> tuple[Entity, ...]:
    changed = ((entity, renamed.get(entity.type, entity.type)) for entity in entities)
    return tuple(replace(entity, type=name) for entity, name in changed if name is not None)
