"""The words of a raw text with their places, and their tags from annotated spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from calibrant.errors import InputError
from calibrant.tasks.sentences import Sentence

__all__ = ["Word", "from_spans", "split_words"]

_WORD = re.compile(
    r"(?:[A-Z]\.)+(?!\w)"  # initials and abbreviations: J. or U.S.
    r"|\d+(?:[.,]\d+)+(?!\w)"  # numbers: 1,000.5
    r"|\w+(?:['’\-]\w+)*"  # words, with apostrophes and hyphens inside: don't, twenty-one
    r"|\S"  # every other sign by itself
)


class Word(NamedTuple):
    """A word and where it stands: ``text[start:end]``."""

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """The words of ``text``: abbreviations, numbers, words, and every other sign by itself.

    One splitter for training and for prediction, in the manner of the CoNLL corpora.

    >>> [tuple(word) for word in split_words("J. Doe's dog")]
    [('J.', 0, 2), ("Doe's", 3, 8), ('dog', 9, 12)]
    """
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def from_spans(text: str, spans: Sequence[tuple[int, int, str]], where: str = "text") -> Sentence:
    """The words of ``text`` with BIO tags from (start, end, type) in characters, end exclusive.

    A word is cut where a span begins or ends inside it.

    >>> from_spans("Anna likes Paris.", [(0, 4, "PER"), (11, 16, "LOC")])
    Sentence(words=('Anna', 'likes', 'Paris', '.'), tags=('B-PER', 'O', 'B-LOC', 'O'))
    """
    spans = sorted(spans)
    for before, (start, end, kind) in zip([(0, 0, ""), *spans], spans, strict=False):
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise InputError(f"{where}: span {start}:{end} ({kind}) holds no word of the text.")
        if start < before[1]:
            raise InputError(f"{where}: spans {before[0]}:{before[1]} and {start}:{end} overlap.")
    types = {start: kind for start, _, kind in spans}
    edges = sorted({0, len(text), *(place for span in spans for place in span[:2])})
    words: list[str] = []
    tags: list[str] = []
    for edge, after in pairwise(edges):
        for number, word in enumerate(split_words(text[edge:after])):
            words.append(word.text)
            tags.append(f"{'I' if number else 'B'}-{types[edge]}" if edge in types else "O")
    return Sentence(tuple(words), tuple(tags))
