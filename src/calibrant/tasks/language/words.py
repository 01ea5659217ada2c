"""The words of a raw text with their places, cut by one of several splitters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

from calibrant.errors import InputError
from calibrant.tasks.language.characters import (
    ABBREVIATIONS,
    BLANK,
    CAPITALS,
    JAMO,
    JOINER,
    UNSPACED,
    VIRAMA,
    marks,
)

__all__ = ["FIRST", "PLAIN", "SPLITTERS", "Splitter", "Word", "split_words"]

_CLITICS = {"s", "re", "ve", "ll", "d", "m"}
_APOSTROPHES = "'’"
# An article or the like that has lost its vowel: l'Italie, dell'Italia; not aujourd'hui, Anna's.
_ELIDED = re.compile(r"(?!aujourd['’]|prud['’])[^\W\d_]+['’](?=[^\W\d_]{2})", re.IGNORECASE)


class Word(NamedTuple):
    """A word and its place: ``text[start:end]``."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Splitter:
    """What stays together of a text; everything else is cut at spaces and around every sign.

    ``inside`` are signs that join the words next to them (hyphens, apostrophes), ``numbers`` those
    that join digits (1,000.5), ``runs`` those that join their like (...). ``clitics`` parts ``'s``
    and ``n't`` from their word, as the Penn Treebank does; ``elisions`` parts ``l'``, ``qu'`` and
    ``dell'`` from the next one, as in French and Italian. ``initials`` keeps the full stops of
    ``U.S.``, and ``abbreviations`` that of ``Mr.``; ``web`` keeps addresses, ``#topics`` and, with
    ``handles``, ``@names``. ``characters`` cuts every character, ``spaces`` nothing else than
    spaces.

    Each ideograph and kana is a word, and so is each cluster of consonant and vowels in Thai, Lao,
    Khmer and Myanmar, which write no spaces; words of Hangul are separated by spaces.
    """

    name: str
    inside: str = ""
    numbers: str = ""
    runs: str = ""
    clitics: bool = False
    initials: bool = False
    abbreviations: bool = False
    web: bool = False
    characters: bool = False
    spaces: bool = False
    elisions: bool = False
    handles: bool = True

    def split(self, text: str) -> list[Word]:
        """Split ``text`` into words, in time linear in its length.

        >>> [tuple(word) for word in PLAIN.split("J. Doe's dog")]
        [('J.', 0, 2), ("Doe's", 3, 8), ('dog', 9, 12)]
        >>> [word.text for word in SPLITTERS["penn"].split("He doesn't see Anna's co-pilot...")]
        ['He', 'does', "n't", 'see', 'Anna', "'s", 'co-pilot', '...']
        >>> [word.text for word in PLAIN.split("北京是 Beijing。")]
        ['北', '京', '是', 'Beijing', '。']
        """
        if self.name == FIRST.name:
            return list(_first_version(text))
        places = _places(text, self)
        if self.clitics:
            places = _with_clitics(text, places)
        if self.elisions:
            places = _with_elisions(text, places)
        return [Word(text[start:end], start, end) for start, end in places]

    def to_dict(self) -> dict[str, Any]:
        """Return the name and every rule, so that a run keeps what it was made with."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Splitter:
        """Read what :meth:`to_dict` returned."""
        known = {f.name: type(f.default) if f.name != "name" else str for f in fields(cls)}
        for key, value in content.items():
            if key not in known or not isinstance(value, known[key]):
                raise InputError(f"'{key}': {value!r:.40} is not a rule of a word splitter.")
        return cls(**{"name": "own", **content})


_USUAL = "-‐‑" + _APOSTROPHES
# The rules of earlier versions: scripts without spaces are one word, and marks are separated.
FIRST = Splitter("first")
PLAIN = Splitter("plain", inside=_USUAL, numbers=".,", initials=True)
_PENN = Splitter(
    "penn",
    inside=_USUAL + "/&_",
    numbers=".,:",
    runs=".-",
    clitics=True,
    initials=True,
    abbreviations=True,
)
_WEB = Splitter("web", inside=_USUAL + "/&_", numbers=".,:", runs=".-!?", clitics=True, web=True)
SPLITTERS: dict[str, Splitter] = {
    splitter.name: splitter
    for splitter in (
        PLAIN,
        Splitter("hyphens", inside=_APOSTROPHES, numbers=".,", initials=True),
        Splitter("clitics", inside=_USUAL, numbers=".,", clitics=True, initials=True),
        _PENN,
        _WEB,
        replace(_WEB, name="topics", handles=False),
        Splitter("elisions", inside=_USUAL, numbers=".,", initials=True, elisions=True),
        Splitter("biomedical", numbers=".,"),
        Splitter("signs"),
        Splitter("characters", characters=True),
        Splitter("spaces", spaces=True),
    )
}


def split_words(text: str, splitter: Splitter = PLAIN) -> list[Word]:
    """Split ``text`` into words; see :class:`Splitter`.

    >>> [word.text for word in split_words("In 3.5 hours, U.S. time.")]
    ['In', '3.5', 'hours', ',', 'U.S.', 'time', '.']
    """
    return splitter.split(text)


@cache
def _pattern(splitter: Splitter) -> re.Pattern[str]:
    """Build one pattern for all rules. No branch fails after a long match, so it is linear.

    The group ``each`` matches what only looks like initials, sign by sign; ``stop`` a full
    stop that belongs to the word where that is an abbreviation.
    """
    mark, letter = marks(), rf"[^\W{UNSPACED}]"
    word = rf"{letter}+(?:[{mark}{VIRAMA}{JOINER}]+{letter}*)*"
    own = rf"\w{UNSPACED}" if splitter.characters else UNSPACED
    cluster = rf"[{own}](?:[{mark}{JOINER}]|[{VIRAMA}][{UNSPACED}]?)*"
    sign = rf"[^{BLANK}][{mark}]*(?:{JOINER}[^\w{BLANK}{mark}]?[{mark}]*)*"
    flag = r"[\U0001f1e6-\U0001f1ff]{2}"
    if splitter.characters:
        return re.compile(f"{JAMO}|{cluster}|{flag}|{sign}")
    if splitter.spaces:
        return re.compile(rf"{cluster}|[^{BLANK}{UNSPACED}]+")
    between = [rf"[{re.escape(splitter.inside)}]{word}"] * bool(splitter.inside)
    between += [rf"(?<=\d)[{re.escape(splitter.numbers)}](?=\d){word}"] * bool(splitter.numbers)
    joined = word + (f"(?:{'|'.join(between)})*" if between else "")
    initials = rf"(?:[{CAPITALS}]\.)+"
    tagged = "@#" if splitter.handles else "#"
    branches = (
        (rf"https?://[^\s<>\"]+|www\.[^\s<>\"]+|[{tagged}]\w+", splitter.web),
        (rf"{initials}(?!\w)|(?P<each>{initials})", splitter.initials),
        (joined + (r"(?P<stop>\.(?![\w.]))?" if splitter.abbreviations else ""), True),
        ("|".join(rf"{re.escape(run)}{{2,}}" for run in splitter.runs), splitter.runs),
        (f"{cluster}|{flag}|{sign}", True),
    )
    return re.compile("|".join(branch for branch, wanted in branches if wanted))


def _places(text: str, splitter: Splitter) -> Iterator[tuple[int, int]]:
    for found in _pattern(splitter).finditer(text):
        start, end = found.span()
        if found.lastgroup == "each":
            yield from ((i, i + 1) for i in range(start, end))
        elif found.lastgroup == "stop" and text[start : end - 1].lower() not in ABBREVIATIONS:
            yield start, end - 1
            yield end - 1, end
        else:
            yield start, end


def _with_clitics(text: str, words: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Separate ``'s``, ``'ll`` and ``n't`` from the word before."""
    for start, end in words:
        cut = _clitic(text, start, end)
        if cut is not None and start < cut < end:
            yield start, cut
            start = cut
        yield start, end


def _with_elisions(text: str, words: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Separate ``l'`` from the word after, also twice: ``qu'l'on``."""
    for start, end in words:
        while (found := _ELIDED.match(text, start, end)) is not None:
            cut = found.end()
            if end - cut <= 2 and text[cut:end].lower() in _CLITICS:
                break
            yield start, cut
            start = cut
        yield start, end


def _clitic(text: str, start: int, end: int) -> int | None:
    """Return where a clitic begins: at the last apostrophe, or the n before it."""
    place = max(text.rfind(mark, max(start, end - 3), end) for mark in _APOSTROPHES)
    if place < 0:
        return None
    after = text[place + 1 : end].lower()
    if after == "t" and text[place - 1 : place].lower() == "n":
        return place - 1
    return place if after in _CLITICS else None


_FIRST = re.compile(
    r"(?P<whole>(?:[A-Z]\.)+(?!\w))"  # initials and abbreviations: J. or U.S.
    r"|(?P<each>(?:[A-Z]\.)+)"  # followed by a letter they are not initials, wherever they begin
    r"|\d+(?:[.,]\d+)+(?!\w)"  # numbers: 1,000.5
    r"|\w+(?:['’\-]\w+)*"  # words, with apostrophes and hyphens inside: don't, twenty-one
    r"|\S"  # every other sign alone
)


def _first_version(text: str) -> Iterator[Word]:
    """Split as runs without their own splitter did."""
    for found in _FIRST.finditer(text):
        start, end = found.span()
        if found.lastgroup == "each":
            yield from (Word(text[i], i, i + 1) for i in range(start, end))
        else:
            yield Word(found.group(), start, end)
