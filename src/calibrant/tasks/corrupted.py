"""Tagged sentences, corrupted: every word keeps its tag, and a word that goes takes it along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibrant.corruptions import TEXT, corrupt_words, kept_words
from calibrant.errors import unknown_name
from calibrant.tasks.sentences import Sentence

__all__ = ["corrupt_sentences"]


def corrupt_sentences(
    sentences: Sequence[Sentence], kind: str, strength: int, seed: int = 0
) -> Iterator[Sentence]:
    """The sentences with their words corrupted; see :mod:`calibrant.corruptions.text`.

    ``dropped-words`` leaves words out together with their tags, so that there are fewer words to
    tag and fewer entities to find; an entity whose first word goes begins with the next of it. A
    sentence keeps one word at least.

    >>> tags = ("B-PER", "I-PER", "O", "O", "B-LOC")
    >>> anna = Sentence(("Anna", "Lind", "lives", "in", "Rome"), tags)
    >>> next(corrupt_sentences([anna], "upper-case", 5)).words
    ('ANNA', 'LIND', 'LIVES', 'IN', 'ROME')
    >>> next(corrupt_sentences([anna], "dropped-words", 4))
    Sentence(words=('Lind', 'lives', 'in', 'Rome'), tags=('B-PER', 'O', 'O', 'B-LOC'))
    """
    if kind not in TEXT:
        raise unknown_name("text corruption", kind, TEXT)
    for number, sentence in enumerate(sentences):
        if TEXT[kind].change is None:
            kept = kept_words(sentence.words, kind, strength, seed=seed, number=number)
            yield _without(sentence, kept.tolist())
        else:
            words = corrupt_words(sentence.words, kind, strength, seed=seed, number=number)
            yield Sentence(tuple(words), sentence.tags)


def _without(sentence: Sentence, kept: list[bool]) -> Sentence:
    words: list[str] = []
    tags: list[str] = []
    opens = False  # Whether the word before this one began its entity, and went.
    for word, tag, stays in zip(sentence.words, sentence.tags, kept, strict=True):
        opens = tag[:1] == "B" or (opens and tag[:1] == "I")
        if stays:
            words.append(word)
            tags.append("B" + tag[1:] if opens else tag)
            opens = False
    return Sentence(tuple(words), tuple(tags))
