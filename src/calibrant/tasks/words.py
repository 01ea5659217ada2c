"""Where the words of a text are, and the tags of its words from annotated spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from calibrant.errors import InputError
from calibrant.tasks.sentences import Sentence

__all__ = ["find_words", "from_spans"]

_WORD = re.compile(r"\w+|[^\w\s]")


def find_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word: runs of letters and digits, and every other sign by itself.

    >>> [("U.N. in Łódź!"[a:b]) for a, b in find_words("U.N. in Łódź!")]
    ['U', '.', 'N', '.', 'in', 'Łódź', '!']
    """
    return [match.span() for match in _WORD.finditer(text)]


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
        for number, (start, end) in enumerate(find_words(text[edge:after])):
            words.append(text[edge + start : edge + end])
            tags.append(f"{'I' if number else 'B'}-{types[edge]}" if edge in types else "O")
    return Sentence(tuple(words), tuple(tags))
