"""A text to predict, cut into sentences and words whose places are those in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from calibrant.errors import InputError
from calibrant.inputs import shortened
from calibrant.tasks.language.marked_text import is_read
from calibrant.tasks.language.sentence_splitter import split_sentences
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.language.words import FIRST, Word

__all__ = ["FIRST_CUTTING", "CutText", "cut_words", "given_words"]

# For runs without a splitter: earlier versions had one splitter, and left texts whole.
FIRST_CUTTING = Cutting(FIRST, sentences=False)


class CutText(NamedTuple):
    """A text and the words of each of its sentences; of given words also their numbers."""

    text: str
    sentences: list[list[Word]]
    numbers: list[int] | None = None

    def place(self, first: int, end: int) -> tuple[int, int]:
        """Return the numbers of the first word and of that after the last, as they were given."""
        if self.numbers is None:
            return first, end
        return self.numbers[first], self.numbers[end - 1] + 1


def cut_words(text: str | Sequence[str], cutting: Cutting, sentences: bool) -> CutText:
    """Cut a text with the splitter of a run.

    >>> cut = cut_words("Anna sings. Boris cooks.", FIRST_CUTTING, sentences=True)
    >>> [[word.text for word in part] for part in cut.sentences]
    [['Anna', 'sings', '.'], ['Boris', 'cooks', '.']]
    >>> cut.sentences[1][0]
    Word(text='Boris', start=12, end=17)
    """
    if not isinstance(text, str):
        if isinstance(text, Sequence):
            raise InputError("A list of words was given as a text; pass tokens=True (--tokens).")
        raise InputError(f"A text is expected, got {shortened(repr(text))}.")
    places = split_sentences(text) if sentences else [(0, len(text))]
    return CutText(
        text,
        [
            [Word(w.text, begin + w.start, begin + w.end) for w in cutting.splitter.split(part)]
            for begin, end in places
            for part in [text[begin:end]]
        ],
    )


def given_words(words: str | Sequence[str]) -> CutText:
    """Take words separated by spaces, or in a list, whose text is joined by spaces.

    Words of spaces are left out, as a corpus is read without them; they keep their numbers.

    >>> given_words(["Anna", "sings"]).text, given_words("Anna  sings").sentences[0][1].start
    ('Anna sings', 6)
    >>> given_words(["Anna", " ", "sings"]).numbers
    [0, 2]
    """
    if isinstance(words, str):
        found = [Word(m.group(), m.start(), m.end()) for m in re.finditer(r"\S+", words)]
        return _read(words, found)
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise InputError(f"A list of words or a text is expected, got {shortened(repr(words))}.")
    placed, start = [], 0
    for word in words:
        placed.append(Word(word, start, start + len(word)))
        start += len(word) + 1
    return _read(" ".join(words), placed)


def _read(text: str, words: Sequence[Word]) -> CutText:
    """Return the words that a model is trained on, and their numbers."""
    numbers = [number for number, word in enumerate(words) if is_read(word.text)]
    return CutText(text, [[words[number] for number in numbers]], numbers)
