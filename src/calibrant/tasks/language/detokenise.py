"""Turn the words of a corpus back into a text as people write it, with the place of each word.

The spaces that a tokenizer removed are not known for sure: ``GSK - 3beta`` was ``GSK-3beta`` in a
corpus that cuts at hyphens, and a dash in one that does not. So the meaning of a lone sign is
learned from the corpus: if words contain the sign, a lone one is a dash.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calibrant.metrics.spans import find_spans
from calibrant.metrics.tags import TagSet
from calibrant.tasks.language.characters import UNSPACED
from calibrant.tasks.language.sentences import Span

__all__ = ["Detokeniser", "Restored"]

_JOINING = "-‐‑–/+&=_~@^*<>"  # Between words, they may have been part of one word.
_BETWEEN_DIGITS = ".,:"
_RARE = 0.1  # As many words hold a sign inside, for each that is a word, where a corpus cuts there.
_DENSE = 0.8  # As many words are one character where a corpus cuts every character.
_TO_THE_LEFT = re.compile(
    r"[,.;:!?…%)\]}”’»›、。，；：！？）」』】》〉]+|['’](?:s|re|ve|ll|d|m|t|S|RE|VE|LL|D|M|T)|[nN]['’][tT]"
)
_TO_THE_RIGHT = re.compile(r"[(\[{$£€¥“‘„«‹¿¡#（「『【《〈]+|``")
_ELIDED = re.compile(r"[^\W\d_]{1,9}['’]")  # l', qu', dell'
_NAMED = 0.05  # As many lone @ begin a sentence where they are of names, not of addresses.
_ELIDES = 0.005  # Such words before a vowel, of all words, where a language elides.
_CLITICS = {"s", "t", "re", "ve", "ll", "d", "m", "S", "T"}
_COMPARED = ("=", "<", ">", "≤", "≥", "~")
_ENDS = (".", "!", "?", ",")
_ESCAPED = {
    "``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{",
    "-RCB-": "}",
}  # fmt: skip
_OWN = re.compile(f"[{UNSPACED}\u3001\u3002\uff01-\uff5e]")


@dataclass(frozen=True)
class Restored:
    """A text, the place of each word in it, and how many of the gaps are uncertain."""

    text: str
    places: tuple[tuple[int, int], ...]
    unsure: int

    def spans(self, tags: Sequence[str]) -> tuple[Span, ...]:
        """Return the entities that BIO tags of the words mark, in characters.

        >>> Restored("Anna Lund.", ((0, 4), (5, 9), (9, 10)), 0).spans(["B-PER", "I-PER", "O"])
        ((0, 9, 'PER'),)
        """
        names = sorted({"O", *tags})
        labels = [names.index(tag) for tag in tags]
        starts = np.arange(len(tags)) == 0
        known = TagSet.of(names)
        found = find_spans(np.array(labels, np.int64), known, starts)
        columns = zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
        edges = ((self.places[s][0], self.places[e - 1][1], known.types[k]) for s, e, k in columns)
        return tuple((start, end, kind) for start, end, kind in edges if start < end)


@dataclass(frozen=True)
class Detokeniser:
    """``cuts`` are signs at which the corpus cuts words; ``dense``: it cuts every character.

    ``elides``: words that end in an apostrophe touch the next one, as in French and Italian.
    ``names``: a lone @ touches only the next word, as in messages to ``@anna``.

    >>> Detokeniser("-").restore(["GSK", "-", "3beta", "(", "it", "'s", "new", ")", "."]).text
    "GSK-3beta (it's new)."
    >>> Detokeniser("").restore(["Paris", "-", "Aug", "22", ",", '"', "Go", "!", '"']).text
    'Paris - Aug 22, "Go!"'
    """

    cuts: str
    dense: bool = False
    elides: bool = False
    names: bool = False

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]]) -> Detokeniser:
        """Learn the spacing of a corpus from its words."""
        elided = 0
        inside: Counter[str] = Counter()
        alone: Counter[str] = Counter()
        words = single = named = 0
        for sentence in sentences:
            named += len(sentence) > 1 and sentence[0] == "@"
            elided += sum(_is_elided(word, after) for word, after in pairwise(sentence))
            for word in sentence:
                if len(word) == 1 and not word.isalnum():
                    alone[word] += 1
                    continue
                inside.update(word[1:-1])
                words += word.isalnum()
                single += len(word) == 1
        known = [
            sign for sign in _JOINING + _BETWEEN_DIGITS if inside[sign] <= _RARE * alone[sign] != 0
        ]
        return cls(
            "".join(known),
            dense=single > _DENSE * max(words, 1),
            elides=elided > _ELIDES * max(words, 1),
            names=named > _NAMED * alone["@"],
        )

    def restore(self, words: Sequence[str]) -> Restored:
        """Restore the text of a sentence."""
        shown = [_ESCAPED.get(word, word) for word in words]
        text, places, unsure, quotes = "", [], 0, _Quotes()
        joins = True  # Whether the next word touches the last.
        for i, word in enumerate(shown):
            left, right, sure = self._sides(shown, i, quotes, words[i])
            unsure += not sure
            if not (joins or left or self._touch(text, word)):
                text += " "
            places.append((len(text), len(text) + len(word)))
            text += word
            joins = right or not word
        return Restored(text, tuple(places), unsure)

    def _touch(self, text: str, word: str) -> bool:
        if self.dense or not word:
            return True
        return bool(text) and bool(_OWN.match(text[-1])) and bool(_OWN.match(word))

    def _sides(
        self, words: Sequence[str], i: int, quotes: _Quotes, given: str
    ) -> tuple[bool, bool, bool]:
        """Return whether a word touches the one before and after it, and whether that is sure."""
        word = words[i]
        before, after = (words[j] if 0 <= j < len(words) else "" for j in (i - 1, i + 1))
        if word in ('"', "'", "’"):
            return quotes.sides(words, i, given)
        between = before[-1:].isalnum() and after[:1].isalnum()
        if len(word) == 1 and word in _BETWEEN_DIGITS and word in self.cuts:
            digits = before[-1:].isdecimal() and after[:1].isdecimal()
            if word == "." and before in _COMPARED and after[:1].isdecimal():
                return False, True, True  # p < .001
            inner = digits and (word != "," or re.fullmatch(r"\d{3}", after) is not None)
            return True, inner, not digits
        if word == "@" and self.names:
            return False, True, True
        if word in _JOINING and between:
            return (word in self.cuts,) * 2 + (False,)
        if self.elides and _is_elided(word, after):
            return False, True, True
        if _TO_THE_LEFT.fullmatch(word):
            return True, False, True
        return False, _TO_THE_RIGHT.fullmatch(word) is not None, True


def _is_elided(word: str, after: str) -> bool:
    """Return whether it is ``l'`` before a vowel or an h, which is mute where words elide."""
    first = unicodedata.normalize("NFD", after[:1])[:1].lower()
    return first in ("a", "e", "i", "o", "u", "y", "h", "œ", "æ") and bool(_ELIDED.fullmatch(word))


class _Quotes:
    """Straight quotes: the first opens, the next closes; an apostrophe is not a quote."""

    def __init__(self) -> None:
        self.open: set[str] = set()

    def sides(self, words: Sequence[str], i: int, given: str) -> tuple[bool, bool, bool]:
        word = words[i]
        before, after = (words[j] if 0 <= j < len(words) else "" for j in (i - 1, i + 1))
        if word != '"' and after in _CLITICS and before[-1:].isalpha():
            return True, True, True
        if given in ("``", "''"):
            opens = given == "``"
            return not opens, opens, True
        if word in self.open:
            self.open.discard(word)
            return True, False, True
        closes = word in words[i + 1 :]
        if word == '"' and not closes and (i + 1 == len(words) or before[-1:] in _ENDS):
            return True, False, True  # It was opened in an earlier sentence.
        if word != '"' and before[-1:] in ("s", "S") and not closes:
            return True, False, False  # farmers' union
        self.open.add(word)
        return False, True, closes
