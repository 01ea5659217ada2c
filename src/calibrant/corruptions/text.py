"""Corrupt text at five strengths, as taggers and classifiers see it outside a corpus."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.corruptions import misspelling
from calibrant.corruptions.names import check_strength
from calibrant.errors import InputError, unknown_name

__all__ = ["TEXT", "TextCorruption", "corrupt_text", "corrupt_words", "kept_words"]

_CHARACTERS = (0.01, 0.02, 0.05, 0.1, 0.2)
_WORDS = (0.1, 0.25, 0.5, 0.75, 1.0)

Change = Callable[[str, np.ndarray, np.ndarray], str]


@dataclass(frozen=True)
class TextCorruption:
    """One kind: the share of its ``unit`` that each strength hits, and the change to a word.

    Without a ``change``, hit words are dropped.
    """

    name: str
    about: str
    unit: str  # "character" or "word"
    rates: tuple[float, ...]
    change: Change | None
    paper: str = ""


TEXT = {
    kind.name: kind
    for kind in (
        TextCorruption(
            "typos", "a neighbouring key of the keyboard", "character", _CHARACTERS,
            misspelling.mistype, "Belinkov & Bisk 2018",
        ),
        TextCorruption(
            "ocr", "characters that a scanner takes for others: 0 and O, rn and m", "character",
            _CHARACTERS, misspelling.misread,
        ),
        TextCorruption(
            "casing", "words in lower, upper or mixed case", "word", _WORDS, misspelling.case
        ),
        TextCorruption("lower-case", "words in lower case", "word", _WORDS, misspelling.lower),
        TextCorruption("upper-case", "words in upper case", "word", _WORDS, misspelling.upper),
        TextCorruption(
            "dropped-characters", "characters left out", "character", _CHARACTERS, misspelling.drop
        ),
        TextCorruption(
            "swapped-characters", "two neighbouring characters in the wrong order", "character",
            _CHARACTERS, misspelling.swap, "Belinkov & Bisk 2018",
        ),
        TextCorruption(
            "dropped-words", "words left out, and their tags with them", "word",
            (0.05, 0.1, 0.2, 0.3, 0.5), None,
        ),
    )
}  # fmt: skip


def corrupt_words(
    words: Sequence[str], kind: str, strength: int, *, seed: int = 0, number: int = 0
) -> list[str]:
    """Return the corrupted words of a sentence: the same number, none of them empty.

    The draws depend on ``seed``, ``kind`` and ``number`` (of the sentence in its file) alone: any
    part of a corpus is corrupted as within the whole, and a greater strength hits all that a
    smaller one hits. Words cannot be dropped here: see :func:`kept_words`.

    >>> corrupt_words(["Anna", "lives", "in", "Paris", "."], "typos", 5)
    ['Anna', 'liges', 'in', 'Paris', '.']
    """
    corruption, rate = _chosen(kind, strength)
    if corruption.change is None:
        raise InputError(f"'{kind}' changes how many words there are; take kept_words.")
    random = _random(seed, kind, number)
    made = []
    for word in words:
        hit, draws = random.random((2, len(word)))
        hit = hit < rate if corruption.unit == "character" else np.full(len(word), hit[:1] < rate)
        new = corruption.change(word, hit, draws) if hit.any() else word
        made.append(new if new.strip() else word)
    return made


def kept_words(
    words: Sequence[str], kind: str, strength: int, *, seed: int = 0, number: int = 0
) -> np.ndarray:
    """Return a mask of the words that stay: at least one, and all if only letters change.

    >>> kept_words(["Anna", "lives", "in", "Paris", "."], "dropped-words", 4).tolist()
    [False, True, True, True, True]
    """
    corruption, rate = _chosen(kind, strength)
    if corruption.change is not None:
        return np.ones(len(words), bool)
    draws = _random(seed, kind, number).random(len(words))
    kept = draws >= rate
    if len(words) and not kept.any():
        kept[draws.argmax()] = True
    return kept


def corrupt_text(text: str, kind: str, strength: int, *, seed: int = 0, number: int = 0) -> str:
    """Corrupt running text, with words separated by white space; the white space stays.

    >>> corrupt_text("Anna lives in  Paris.", "swapped-characters", 5)
    'Anna lives in  Pairs.'
    >>> corrupt_text("Anna lives in  Paris.", "dropped-words", 4)
    'lives in  Paris.'
    """
    corruption, _ = _chosen(kind, strength)
    parts = re.split(r"(\s+)", text)  # Word, space, word, …; the first and last may be empty.
    words, spaces = parts[::2], [*parts[1::2], ""]
    places = [place for place, word in enumerate(words) if word]
    whole = [words[place] for place in places]
    if corruption.change is not None:
        new = corrupt_words(whole, kind, strength, seed=seed, number=number)
        for place, word in zip(places, new, strict=True):
            words[place] = word
    else:
        kept = kept_words(whole, kind, strength, seed=seed, number=number)
        for place in np.array(places, int)[~kept].tolist():  # Drop the space behind a word with it.
            words[place] = spaces[place] = ""
    return "".join(word + space for word, space in zip(words, spaces, strict=True))


def _chosen(kind: str, strength: int) -> tuple[TextCorruption, float]:
    if kind not in TEXT:
        raise unknown_name("text corruption", kind, TEXT)
    return TEXT[kind], TEXT[kind].rates[check_strength(strength) - 1]


def _random(seed: int, kind: str, number: int) -> np.random.Generator:
    if not 0 <= seed < 2**63:
        raise InputError(f"A seed must be a whole number from 0 to 2⁶³ − 1, got {seed}.")
    return np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
