"""Raw text to words with their places, in the manner of the CoNLL corpora."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Word", "split_words"]

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

    >>> [tuple(word) for word in split_words("J. Doe's dog")]
    [('J.', 0, 2), ("Doe's", 3, 8), ('dog', 9, 12)]
    """
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]
