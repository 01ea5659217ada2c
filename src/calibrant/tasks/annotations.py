"""Records to tagged sentences: ``tokens`` with ``tags``, or ``text`` with character spans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.tasks.marked_text import from_spans
from calibrant.tasks.records import field, read_records
from calibrant.tasks.sentences import Sentence, check_tag, to_bio

__all__ = ["SPANS", "TAGS", "WORDS", "read_jsonl", "tagged", "to_sentence"]

WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels")
SPANS = ("entities", "spans")


def read_jsonl(path: str | Path) -> list[Sentence]:
    """The sentences of a jsonl file, one on each line, with BIO tags.

    ``{"tokens": ["Anna", "sings"], "tags": ["B-PER", "O"]}``, or
    ``{"text": "Anna sings", "entities": [{"start": 0, "end": 4, "label": "PER"}]}``.
    """
    path = Path(path)
    return to_bio([to_sentence(r, f"{path}, line {line}") for line, r in read_records(path)])


def to_sentence(record: dict[str, Any], where: str) -> Sentence:
    """One record as a sentence; its tags are checked, not yet changed to BIO."""
    if any(name in record for name in WORDS):
        words, tags = field(record, WORDS, where), field(record, TAGS, where)
        return tagged(words, tags, where)
    text, spans = field(record, ("text", "tokens"), where), field(record, SPANS, where)
    if not isinstance(text, str) or not isinstance(spans, list):
        raise InputError(f"{where}: expected a text and a list of spans.")
    return from_spans(text, [_span(span, where) for span in spans], where)


def tagged(words: Sequence[Any], tags: Sequence[Any], where: str) -> Sentence:
    """A sentence of words and tags, or an error that says what is wrong with them."""
    for values, what in ((words, "words"), (tags, "tags")):
        odd = next((v for v in values if not isinstance(v, str)), None) if values else None
        if not isinstance(values, (list, tuple)) or odd is not None:
            got = repr(values if odd is None else odd)[:40]
            raise InputError(f"{where}: expected a list of {what} as text, got {got}.")
    if len(words) != len(tags):
        raise InputError(f"{where}: {len(words)} words, but {len(tags)} tags.")
    for tag in tags:
        check_tag(tag, where)
    return Sentence(tuple(words), tuple(tags))


def _span(span: Any, where: str) -> tuple[int, int, str]:
    if isinstance(span, dict):
        span = [span.get("start"), span.get("end"), span.get("label", span.get("type"))]
    if not isinstance(span, list) or list(map(type, span)) != [int, int, str] or not span[2]:
        raise InputError(f"{where}: expected spans with start, end and label, got {span!r:.60}.")
    return span[0], span[1], span[2]
