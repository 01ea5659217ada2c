"""Hold documents with predicted entities, and order them by what a review gains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.errors import InputError
from calibrant.tasks.language.marked_text import has_words

__all__ = ["Document", "Span", "by_gain", "check_spans", "expected_gain", "of_prediction"]


@dataclass(frozen=True, order=True)
class Span:
    """``text[start:end]`` is a ``type``; ``confidence`` is that of a prediction."""

    start: int
    end: int
    type: str
    confidence: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the span as data for JSON."""
        found = {"start": self.start, "end": self.end, "type": self.type}
        return found if self.confidence is None else {**found, "confidence": self.confidence}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], length: int) -> Span:
        """Return the span of a text of ``length`` characters; other content is a ValueError.

        >>> Span.from_dict({"start": 0, "end": 9, "type": "PER"}, 4)
        Traceback (most recent call last):
        ...
        ValueError: 0 to 9 is not in a text of 4 characters
        """
        span = cls(**content)
        if type(span.start) is not int or type(span.end) is not int or type(span.type) is not str:
            raise ValueError("a span has whole numbers and the name of a type")
        if not 0 <= span.start < span.end <= length:
            raise ValueError(f"{span.start} to {span.end} is not in a text of {length} characters")
        if span.confidence is not None and not 0 <= span.confidence <= 1:
            raise ValueError("a confidence must be in [0, 1]")
        return span


@dataclass(frozen=True)
class Document:
    """A text under review, with the entities that a model found in it."""

    id: str
    text: str
    entities: tuple[Span, ...]


def of_prediction(name: str, prediction: Any) -> Document:
    """Return the document of a prediction: accepted entities and the others, in their order."""
    found = [
        Span(one.start, one.end, one.type, one.confidence)
        for one in (*prediction.entities, *prediction.abstained)
    ]
    return Document(name, prediction.text, tuple(sorted(found)))


def expected_gain(document: Document) -> float:
    """Return the errors that a reviewer finds per entity, if confidences are honest.

    The mean of 1 − confidence over the entities of the document. Entities that the model missed do
    not count, so a document without entities has 0.

    >>> entities = (Span(0, 4, "PER", 0.9), Span(8, 12, "LOC", 0.5))
    >>> expected_gain(Document("a", "Anna in Rome", entities))
    0.3
    """
    sure = [one.confidence for one in document.entities if one.confidence is not None]
    return round(sum(1 - value for value in sure) / len(sure), 12) if sure else 0.0


def by_gain(documents: Iterable[Document]) -> list[Document]:
    """Return the documents, those with the most expected errors per entity first."""
    return sorted(documents, key=lambda one: -expected_gain(one))


def check_spans(text: str, spans: Sequence[Span], types: Sequence[str]) -> None:
    """Raise an error for spans that overlap, leave the text or have an unknown type."""
    before = 0
    for span in sorted(spans):
        if not 0 <= span.start < span.end <= len(text):
            raise InputError(
                f"An entity from {span.start} to {span.end} is not in a text of {len(text)} "
                "characters."
            )
        if span.start < before:
            raise InputError(f"Two entities overlap at character {span.start}.")
        if not has_words(text[span.start : span.end]):
            raise InputError(f"An entity from {span.start} to {span.end} has only blanks.")
        if span.type not in types:
            raise InputError(f"Unknown type '{span.type}'. Known: {', '.join(types)}.")
        before = span.end
