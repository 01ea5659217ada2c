"""Corrupt tagged sentences: every word keeps its tag, and a dropped word loses its tag too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calibrant.corruptions import TEXT, corrupt_words, kept_words
from calibrant.errors import InputError, unknown_name
from calibrant.tasks.language.sentences import Sentence

__all__ = ["corrupt_sentence", "corrupt_sentences"]


def corrupt_sentences(
    sentences: Sequence[Sentence], kind: str, strength: int, seed: int = 0
) -> Iterator[Sentence]:
    """Corrupt the words of sentences; see :mod:`calibrant.corruptions.text`.

    ``dropped-words`` drops words together with their tags, so there are fewer words to tag and
    fewer entities to find. An entity whose first word is dropped begins with its next word. A
    sentence keeps at least one word.

    >>> tags = ("B-PER", "I-PER", "O", "O", "B-LOC")
    >>> anna = Sentence(("Anna", "Lind", "lives", "in", "Rome"), tags)
    >>> next(corrupt_sentences([anna], "upper-case", 5)).words
    ('ANNA', 'LIND', 'LIVES', 'IN', 'ROME')
    >>> next(corrupt_sentences([anna], "dropped-words", 4))
    Sentence(words=('Lind', 'lives', 'in', 'Rome'), tags=('B-PER', 'O', 'O', 'B-LOC'))
    """
    for number, sentence in enumerate(sentences):
        yield corrupt_sentence(sentence, kind, strength, seed=seed, number=number)[0]


def corrupt_sentence(
    sentence: Sentence, kind: str, strength: int, *, seed: int = 0, number: int = 0
) -> tuple[Sentence, list[bool]]:
    """Corrupt the sentence of a ``number``, and return which of its words are left."""
    if kind not in TEXT:
        raise unknown_name("text corruption", kind, TEXT)
    if TEXT[kind].change is None:
        kept = kept_words(sentence.words, kind, strength, seed=seed, number=number).tolist()
        return _without(sentence, kept), kept
    words = corrupt_words(sentence.words, kind, strength, seed=seed, number=number)
    return replace(sentence, words=tuple(words), text=None, spans=()), [True] * len(words)


def _without(sentence: Sentence, kept: list[bool]) -> Sentence:
    words: list[str] = []
    tags: list[str] = []
    unfit: list[int] = []
    opens = False  # Whether the first word of this entity was dropped.
    waiting = 0  # Entities with an edge inside a word whose first word was dropped.
    counts = sentence.unfit or (0,) * len(sentence)
    for word, tag, stays, count in zip(sentence.words, sentence.tags, kept, counts, strict=True):
        if tag[0] not in "OBI":
            raise InputError(f"Words can be dropped from BIO tags; '{tag}' marks an entity's end.")
        opens = tag[0] == "B" or (opens and tag[0] == "I")
        waiting = count + (waiting if tag[0] == "I" else 0)
        if stays:
            words.append(word)
            tags.append("B" + tag[1:] if opens else tag)
            unfit.append(waiting)
            opens, waiting = False, 0
    return Sentence(tuple(words), tuple(tags), unfit=tuple(unfit) if any(unfit) else ())
