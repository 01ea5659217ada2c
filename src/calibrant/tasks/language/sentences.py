"""Tagged sentences, and their tags in one scheme: BIO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.spans import find_spans
from calibrant.metrics.tags import BEGIN, INSIDE, OUTSIDE, TagSet, is_bio

__all__ = ["Sentence", "Span", "check_tag", "is_tag", "to_bio"]

Span: TypeAlias = tuple[int, int, str]  # Start and end in characters, and the type of an entity.


@dataclass(frozen=True)
class Sentence:
    """Words and one tag for each.

    ``text`` and the entities in it, ``spans``, are set if the raw text is known. ``unfit`` counts
    for each word the entities that begin there and have an edge inside a word; it is empty if all
    entities consist of whole words.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    text: str | None = field(default=None, compare=False, repr=False)
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    unfit: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.words)


def check_tag(tag: str, where: str) -> None:
    """Raise an error that says ``where`` unless ``tag`` is O, B-TYPE, I-TYPE, E-TYPE, S-TYPE, ….

    >>> check_tag("PER", "news.conll, line 3")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: news.conll, line 3: 'PER' is not a tag of IOB1, BIO or BIOES; ...
    """
    if not is_tag(tag):
        raise InputError(
            f"{where}: '{tag}' is not a tag of IOB1, BIO or BIOES; expected O, B-TYPE, I-TYPE, …"
        )


@lru_cache(maxsize=4096)
def is_tag(tag: str) -> bool:
    """Return whether a tag is O, or a letter of one of the schemes with a type.

    >>> is_tag("B-PER"), is_tag("W-LOC"), is_tag("PER")
    (True, True, False)
    """
    return is_bio(("O", "B", _known(tag)))


def _known(tag: str) -> str:
    """Read M(iddle) as I(nside) and W(hole) as S(ingle), for BMEWO and BMES."""
    return {"M-": "I-", "W-": "S-"}.get(tag[:2], tag[:2]) + tag[2:]


def to_bio(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Convert tags to BIO from IOB1, BIO, BIOES, BILOU, BMEWO or BMES.

    IOB1 writes B- only between touching entities of one type; so if entities start with I- and no
    B- occurs anywhere else, it is IOB1. In BIO, an I- that starts an entity stays: scoring counts
    it as a start.

    >>> bioes = Sentence(("U.N.", "in", "New", "York"), ("S-ORG", "O", "B-LOC", "E-LOC"))
    >>> to_bio([bioes])[0].tags
    ('B-ORG', 'O', 'B-LOC', 'I-LOC')
    >>> to_bio([Sentence(("EU", "rejects"), ("I-ORG", "O"))])[0].tags
    ('B-ORG', 'O')
    """
    flat = [_known(tag) for sentence in sentences for tag in sentence.tags]
    names = sorted({"O", *flat})
    number = {name: i for i, name in enumerate(names)}
    labels = np.array([number[tag] for tag in flat], np.int64)
    ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
    starts = np.zeros(len(flat), bool)
    starts[[end - len(s) for end, s in zip(ends, sentences, strict=True) if len(s)]] = True
    tags = TagSet.of(names)
    if not tags.bioes and not _is_iob1(labels, tags, starts):
        return list(sentences)
    opens = np.zeros(len(flat), bool)
    opens[find_spans(labels, tags, starts).start] = True
    new = [
        tag if tag == "O" else ("B" if first else "I") + tag[1:]
        for tag, first in zip(flat, opens.tolist(), strict=True)
    ]
    return [
        replace(s, tags=tuple(new[end - len(s) : end]))
        for s, end in zip(sentences, ends.tolist(), strict=True)
    ]


def _is_iob1(labels: np.ndarray, tags: TagSet, starts: np.ndarray) -> bool:
    prefix, kind = tags.prefix[labels], tags.type[labels]
    touching = (np.roll(kind, 1) == kind) & (prefix != OUTSIDE) & ~starts
    begins, insides = (bool(((prefix == which) & ~touching).any()) for which in (BEGIN, INSIDE))
    return insides and not begins
