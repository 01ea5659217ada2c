"""Turn texts with marked entities into tagged words, cut as ``calibrant predict`` cuts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress

from calibrant.errors import InputError
from calibrant.tasks.language.characters import BLANK
from calibrant.tasks.language.sentence_splitter import split_sentences
from calibrant.tasks.language.sentences import Sentence, Span
from calibrant.tasks.language.words import PLAIN, Splitter, Word

__all__ = ["cut_text", "ends_note", "from_spans", "has_words", "is_read", "recut", "without_blanks"]

_VISIBLE = re.compile(f"[^{BLANK}]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_FEWEST = 5  # With fewer entities, one that ends inside a word says little.


def has_words(text: str) -> bool:
    """Return whether a text has more than blanks.

    >>> has_words(" \u200b"), has_words("…")
    (False, True)
    """
    return _VISIBLE.search(text) is not None


def is_read(word: str) -> bool:
    """Return whether a corpus is read with a word: an empty one is unknown, spaces are left out.

    >>> is_read("Anna"), is_read(""), is_read(" ")
    (True, True, False)
    """
    return not word or has_words(word)


def without_blanks(sentence: Sentence) -> Sentence:
    """Leave out words of spaces, as spaCy and corpora of syllables have them: no splitter has.

    >>> without_blanks(Sentence(("New", " ", "York"), ("B-LOC", "I-LOC", "I-LOC")))
    Sentence(words=('New', 'York'), tags=('B-LOC', 'I-LOC'))
    """
    kept = list(map(is_read, sentence.words))
    if all(kept):
        return sentence
    words, tags = (tuple(compress(part, kept)) for part in (sentence.words, sentence.tags))
    return replace(sentence, words=words, tags=tags)


def from_spans(
    text: str, spans: Sequence[Span], where: str = "text", splitter: Splitter = PLAIN
) -> Sentence:
    """Tag the words of ``text`` from (start, end, type) in characters, end exclusive.

    Only the splitter decides the words, not the marks. An entity that begins or ends inside a
    word is widened to whole words and counted in ``unfit``: no prediction can be right there.

    >>> from_spans("Anna likes Paris.", [(0, 4, "PER"), (11, 16, "LOC")])
    Sentence(words=('Anna', 'likes', 'Paris', '.'), tags=('B-PER', 'O', 'B-LOC', 'O'))
    >>> from_spans("pre-Brexit talks", [(4, 10, "EVENT")]).unfit
    (1, 0)
    """
    return _tagged(text, splitter.split(text), _checked(text, spans, where))


def cut_text(
    text: str, spans: Sequence[Span], splitter: Splitter, *, sentences: bool, where: str = "text"
) -> list[Sentence]:
    """Tag each sentence of a text; an entity that continues in the next one is unfit."""
    found = _checked(text, spans, where)
    places = split_sentences(text) if sentences else [(0, len(text))]
    ends = [end for _, end in places]
    inside: list[list[Span]] = [[] for _ in places]
    for start, end, kind in found:
        number = bisect_right(ends, start)
        inside[number].append((start - places[number][0], end - places[number][0], kind))
    return [
        _tagged(text[start:end], splitter.split(text[start:end]), part)
        for (start, end), part in zip(places, inside, strict=True)
    ]


def _checked(text: str, spans: Sequence[Span], where: str) -> list[Span]:
    """Return the spans in order, without the blanks around them; none is empty, none overlap.

    A span that is given twice, as by two annotators, counts once.
    """
    found: list[Span] = []
    for start, end, kind in sorted(set(spans)):
        if not 0 <= start <= end <= len(text):
            raise InputError(
                f"{where}: span {start}:{end} ({kind}) is not inside of the text, which has "
                f"{len(text)} characters; start and end count characters, not bytes or UTF-16."
            )
        places = _visible(text, start, end) if start < end else None
        if places is None:
            exclusive = "; the end is exclusive" if start == end else ""
            raise InputError(
                f"{where}: span {start}:{end} ({kind}) holds no word of the text{exclusive}."
            )
        if found and places[0] < found[-1][1]:
            before = found[-1]
            raise InputError(
                f"{where}: spans {before[0]}:{before[1]} ({before[2]}) and {start}:{end} ({kind}) "
                "overlap, and a word has one tag: keep one of them."
            )
        found.append((*places, kind))
    return found


def _visible(text: str, start: int, end: int) -> tuple[int, int] | None:
    first = _VISIBLE.search(text, start, end)
    if first is None:
        return None
    while not _VISIBLE.match(text[end - 1]):
        end -= 1
    return first.start(), end


def _tagged(text: str, words: Sequence[Word], spans: Sequence[Span]) -> Sentence:
    tags, unfit = ["O"] * len(words), [0] * len(words)
    starts, ends = [word.start for word in words], [word.end for word in words]
    for start, end, kind in spans:
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        fits = first < last and (starts[first], ends[last - 1]) == (start, end)
        free = [place for place in range(first, last) if tags[place] == "O"]
        if not fits:
            unfit[free[0] if free else first] += 1
        for number, place in enumerate(free):
            tags[place] = f"{'I' if number else 'B'}-{kind}"
    marks = tuple(unfit) if any(unfit) else ()
    return Sentence(tuple(w.text for w in words), tuple(tags), text, tuple(spans), marks)


def recut(sentences: Sequence[Sentence], splitter: Splitter, *, whole: bool) -> Iterator[Sentence]:
    """Cut sentences of raw text again; sentences of words stay the same."""
    for sentence in sentences:
        if sentence.text is None:
            yield sentence
        else:
            yield from cut_text(sentence.text, sentence.spans, splitter, sentences=not whole)


def ends_note(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Say that most entities lack the last character of their word, if they do.

    So look files whose ends are inclusive. Korean particles of one syllable are no such sign.

    >>> sentence = from_spans("Anna likes Paris.", [(0, 3, "PER"), (11, 15, "LOC")])
    >>> ends_note([sentence] * 4)[0][:62]
    '8 of 8 entities end one character before the end of a word: if'
    """
    marked = [sentence for sentence in sentences if sentence.text is not None]
    short = sum(_ends_short(sentence) for sentence in marked)
    entities = sum(len(sentence.spans) for sentence in marked)
    if entities < _FEWEST or 2 * short <= entities:
        return ()
    return (
        f"{short:,} of {entities:,} entities end one character before the end of a word: if 'end' "
        "is the place of the last character, add 1, because calibrant's ends are exclusive "
        "(text[start:end] is the entity).",
    )


def _ends_short(sentence: Sentence) -> int:
    text = sentence.text or ""
    words = PLAIN.split(text)
    starts, ends = {word.start for word in words}, {word.end for word in words}
    return sum(
        start in starts and end not in ends and end + 1 in ends and _HANGUL.match(text, end) is None
        for start, end, _ in sentence.spans
    )
