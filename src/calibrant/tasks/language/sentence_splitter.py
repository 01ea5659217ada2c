"""The sentences of a raw text with their places, by a few rules for many languages."""

from __future__ import annotations

import re

from calibrant.tasks.language.characters import ABBREVIATIONS, BEFORE_NAMES, BLANK, UNSPACED

__all__ = ["split_sentences"]

_CLOSERS = "\"'”’»›)\\]}」』】）》〉"
_OPENERS = "\"'“‘„«‹([{「『【（《〈*#–—-"
# These always end a sentence: they are used for nothing else.
_ALWAYS = "。！？｡।॥။៕។།።։؟۔"
_CANDIDATE = re.compile(
    rf"(?P<always>[{_ALWAYS}]+[{_CLOSERS}]*)"
    rf"|(?P<stop>[.!?…‼⁇⁈⁉．]+[{_CLOSERS}]*)"
    r"|(?P<line>\n\s*)"
)
_BEFORE = re.compile(rf"[^\s{re.escape(_OPENERS.replace('-', ''))}]*\Z")
_AFTER = re.compile(rf"[\s{re.escape(_OPENERS)}]*(\w*)")
# At the end of a word: U.S, then-U.S, i.e, Ph.D, Dipl.-Ing; not p<0.5 or a?q=1.5.
_DOTTED = re.compile(r"(?<![\w.])(?:[^\W\d_]{1,4}\.-?)+[^\W\d_]{1,4}\Z")
_NEAR = 24  # Characters that are looked at on either side of a full stop.
_WRAPPED = 40  # A line of this many characters may continue in the next.
# With a capital these are titles and streets (Portuguese, Spanish), else words of other languages.
_CAPITALISED = {"Av", "Min", "Des", "Rel", "Ing", "Lic", "Sta", "Sto"}
_BEFORE_NUMBERS = {"no", "num", "arts", "kl", "kb"}
# German ordinals before these words: am 3. Oktober, im 19. Jahrhundert.
_COUNTED = """
januar jänner februar märz april mai juni juli august september oktober november dezember
jahrhundert jahrhunderts jahrtausend jahrtausends weltkrieg weltkriegs bundesliga liga
"""
_AFTER_ORDINALS = frozenset(_COUNTED.split())
# Words that begin a sentence, even after an abbreviation.
_STARTING = """
the he she it in but and a an this that these those they we i you his her its their our my on at for
as if when while after before however there so then although since with by from no one what who how
why where not some many most all both each
"""
_STARTERS = frozenset(_STARTING.split())


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Yield start and end of each sentence, without the blanks around it, in linear time.

    A sentence ends at a mark that is used for nothing else (。 ।), at a blank line, at the end of a
    line that is too short to have been wrapped, and at a full stop, ! or ? before a space, unless
    the next word is in lower case or the full stop belongs to an abbreviation or an initial.

    >>> text = "Dr. J. Lund paid 3.5 million. She left the U.S. in May."
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. J. Lund paid 3.5 million.', 'She left the U.S. in May.']
    >>> split_sentences("你好。我很好。")
    [(0, 3), (3, 7)]
    """
    edges = [0]
    for found in _CANDIDATE.finditer(text):
        if found.end() < len(text) and _ends(text, found, edges[-1]):
            edges.append(found.end())
    return [
        (start, end)
        for before, after in zip(edges, [*edges[1:], len(text)], strict=True)
        for start, end in [_trimmed(text, before, after)]
        if start < end
    ]


def _ends(text: str, found: re.Match[str], start: int) -> bool:
    if found.lastgroup == "always":
        return True
    if found.lastgroup == "line":
        return _ends_at_line(text, found)
    after = text[found.end()]
    if not after.isspace():  # 3.5, a.b, but also 好吗?好
        return found.group()[0] in "!?" and re.match(f"[{UNSPACED}]", after) is not None
    following = _AFTER.match(text, found.end(), found.end() + _NEAR)
    word = following.group(1) if following else ""
    if word[:1].islower():
        return False
    return found.group()[0] != "." or _is_full_stop(text, found, start, word)


def _ends_at_line(text: str, found: re.Match[str]) -> bool:
    """Whether a sentence ends at a line break: at a blank line, or after a short line."""
    if found.group().count("\n") > 1:
        return True
    begins = text.rfind("\n", max(0, found.start() - _WRAPPED), found.start())
    return begins >= 0 or found.start() < _WRAPPED


def _is_full_stop(text: str, found: re.Match[str], start: int, word: str) -> bool:
    """Return whether a full stop before a capital, a digit or another sign ends a sentence."""
    if found.group().startswith(".."):
        return True
    near = text[max(start, found.start() - _NEAR) : found.start()]
    before = _BEFORE.search(near)
    written = before.group() if before else ""
    last = written.lower()
    if last in BEFORE_NAMES or written in _CAPITALISED:
        return False
    if last in _BEFORE_NUMBERS and word[:1].isdecimal():
        return False
    if last.isdecimal() and len(last) < 3 and word.lower() in _AFTER_ORDINALS:
        return False
    if last.isdecimal() and _is_item(near[: -len(last)].rstrip(), last):
        return False
    initial = len(last) == 1 and last.isalpha()
    unsure = last in ABBREVIATIONS or initial or _DOTTED.search(last) is not None
    return not unsure or word.lower() in _STARTERS


def _is_item(before: str, number: str) -> bool:
    """Find the number of an item: 1. Boil it; also after a number: 1. Lund 48.5 2. Berg."""
    return not before or (len(number) < 3 and (before[-1].isdecimal() or before[-1] in ":)"))


_INVISIBLE = re.compile(f"[{BLANK}]*")
_INVISIBLE_END = re.compile(f"[{BLANK}]")


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    found = _INVISIBLE.match(text, start, end)
    start = found.end() if found else start
    while end > start and _INVISIBLE_END.match(text[end - 1]):
        end -= 1
    return start, end
