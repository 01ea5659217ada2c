"""Learn from the training split which splitter cuts raw text as the corpus is cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calibrant.errors import InputError
from calibrant.tasks.language.detokenise import Detokeniser
from calibrant.tasks.language.marked_text import from_spans
from calibrant.tasks.language.sentence_splitter import split_sentences
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.words import SPLITTERS, Splitter

__all__ = ["Cutting", "choose_cutting", "restored"]

_SAMPLE = 1000  # Sentences that splitters are compared on.
# Every entity consists of whole characters, also one with a wrong mark: as words they must fit this
# many more, as in Korean, where particles are written to the name.
_CHARACTERS_GAIN = 0.1
# The share of the entities that better words may cost: no model can find an entity inside a word.
_ENTITIES_LOST = 0.05
_SEVERAL = 1.5  # With this many sentences per example, a corpus consists of longer texts.


@dataclass(frozen=True)
class Cutting:
    """How raw text becomes the words of a model, and how near they are to those of its corpus.

    ``sentences``: whether a text is cut into sentences first. ``words`` is the F1 of the places of
    words against the corpus', ``entities`` the share of the corpus' entities that consist of whole
    words; both on training text. ``unsure`` is the share of gaps between words of the corpus that
    may or may not have been a space.
    """

    splitter: Splitter
    sentences: bool = True
    words: float = 1.0
    entities: float = 1.0
    unsure: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return what a run keeps of it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Cutting:
        """Read what :meth:`to_dict` returned."""
        names = {"splitter": Mapping, "sentences": bool, "words": float, "entities": float}
        for name, kind in names.items():
            if not isinstance(content.get(name), kind):
                raise InputError(f"expected '{name}' of words, got {content.get(name)!r:.40}")
        known = {name: content[name] for name in (*names, "unsure") if name in content}
        return cls(**{**known, "splitter": Splitter.from_dict(content["splitter"])})


def choose_cutting(train: Sequence[Sentence], detokeniser: Detokeniser) -> Cutting:
    """Choose the splitter of :data:`.words.SPLITTERS` with the best F1 of words.

    A splitter that clearly fewer entities fit than another is left out: nothing inside a word can
    be found. A corpus of raw text with marked entities has no words to compare: then it is the
    first one that the most entities fit, and single characters are words only if whole words miss
    many more entities.
    """
    step = max(1, -(-len(train) // _SAMPLE))
    sample = [restored(sentence, detokeniser) for sentence in train[::step]]
    scores = [_score(sample, splitter) for splitter in SPLITTERS.values()]
    best = _best(scores, has_words=any(places is not None for _, places, _ in sample))
    several = _mean([len(split_sentences(marked.text or "")) for marked, _, _ in sample])
    gaps = sum(len(places or ()) for _, places, _ in sample)
    return Cutting(
        best.splitter,
        sentences=several < _SEVERAL,
        words=best.words,
        entities=best.entities,
        unsure=sum(unsure for _, _, unsure in sample) / max(gaps, 1),
    )


def _best(scores: Sequence[Cutting], *, has_words: bool) -> Cutting:
    if has_words:
        most = max(score.entities for score in scores if not score.splitter.characters)
        scores = [score for score in scores if score.entities >= most - _ENTITIES_LOST]
    best = max(scores, key=lambda score: (round(score.words, 4), round(score.entities, 4)))
    if has_words or not best.splitter.characters:
        return best
    of_words = _best([score for score in scores if not score.splitter.characters], has_words=False)
    return best if best.entities - of_words.entities > _CHARACTERS_GAIN else of_words


_Sample = tuple[Sentence, Sequence[tuple[int, int]] | None, int]


def restored(sentence: Sentence, detokeniser: Detokeniser) -> _Sample:
    """Return a sentence with its text and spans, and the places of the corpus' words."""
    if sentence.text is not None:
        return sentence, None, 0
    made = detokeniser.restore(sentence.words)
    marked = Sentence(sentence.words, sentence.tags, made.text, made.spans(sentence.tags))
    return marked, made.places, made.unsure


def _score(sample: Sequence[_Sample], splitter: Splitter) -> Cutting:
    same = own = other = entities = unfit = 0
    for marked, places, _ in sample:
        cut = from_spans(marked.text or "", marked.spans, splitter=splitter)
        entities += len(marked.spans)
        unfit += sum(cut.unfit)
        if places is not None:
            found = {(word.start, word.end) for word in splitter.split(marked.text or "")}
            expected = {place for place in places if place[0] < place[1]}
            same += len(found & expected)
            own, other = own + len(found), other + len(expected)
    words = 2 * same / (own + other) if own + other else 1.0
    return Cutting(splitter, words=words, entities=1 - unfit / entities if entities else 1.0)


def _mean(values: Iterable[int]) -> float:
    found = list(values)
    return sum(found) / max(len(found), 1)
