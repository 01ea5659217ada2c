"""From raw text to entities with type, place and calibrated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from calibrant.comparison.entity_map import AUTO, EntityMap, entity_words
from calibrant.comparison.risk_control import Guarantee
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Spans, find_spans, sentence_starts
from calibrant.metrics.tags import TagSet
from calibrant.predictions import Predictions
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.language.words import Word
from calibrant.tasks.ner.cut_text import FIRST_CUTTING, CutText, cut_words, given_words
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.subword_windows import encode
from calibrant.tasks.ner.word_predictions import predict_words

__all__ = ["Entity", "Prediction", "Predictor", "Token"]

_TEXTS = 256  # texts that are run together


@dataclass(frozen=True)
class Token:
    """A word of an entity with the confidence of its tag."""

    text: str
    start: int
    end: int
    tag: str
    confidence: float


@dataclass(frozen=True)
class Entity:
    """``text[start:end]`` is a ``type``, with the probability ``confidence``.

    It is learned for whole entities (:class:`~calibrant.comparison.EntityMap`); the confidence of a
    token is that of its tag alone. ``words`` are the numbers of the first word and of the word
    after the last; None unless the caller gave words.
    """

    type: str
    start: int
    end: int
    text: str
    confidence: float
    tokens: tuple[Token, ...]
    words: tuple[int, int] | None = None


@dataclass(frozen=True)
class Prediction:
    """A text, its accepted entities, and those too unsure to be accepted."""

    text: str
    entities: tuple[Entity, ...]
    abstained: tuple[Entity, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as data for JSON."""
        content = asdict(self)
        for entity in (*content["entities"], *content["abstained"]):
            if entity["words"] is None:
                del entity["words"]
        return content


class Predictor:
    """A trained token classifier with its calibrator: ``calibrant.load_run(RUN)``.

    ``tokenizer`` and ``model`` come from transformers, and ``labels`` are BIO tags. ``confidence``
    has the calibrator and what was learned about entities, for the words that ``cutting`` makes of
    a text. ``given`` has the same for the words of the corpus.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str],
        confidence: EntityConfidence,
        max_length: int = 512,
        *,
        cutting: Cutting = FIRST_CUTTING,
        given: EntityConfidence | None = None,
    ) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, tuple(labels)
        self.calibrator, self.max_length, self.cutting = confidence.calibrator, max_length, cutting
        self._of_texts, self._of_words = confidence, given or confidence

    def __repr__(self) -> str:
        types = ", ".join(TagSet.of(self.labels).types)
        model = type(self.model).__name__
        return f"<Predictor of {types}: {model}, calibrated by {self.calibrator.name}>"

    def predict(
        self,
        texts: str | Iterable[str | Sequence[str]],
        *,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        reduction: str = AUTO,
        sentences: bool | None = None,
        tokens: bool = False,
    ) -> list[Prediction]:
        """Find the entities of each text.

        A text is cut into sentences and words in the same way as the training data of the run;
        ``sentences`` overrides whether it is cut into sentences. With ``tokens`` each text is a
        list of words, or words separated by spaces; calibrators and guarantees are then those of
        the corpus' own words.

        ``reduction`` ("auto", "product", "min" or "mean") turns the confidences of an entity's
        words into one number, from which :meth:`entity_map` learns the confidence of the entity.
        With ``target_risk``, entities below :meth:`threshold` at that ``level`` are not accepted.
        """
        texts = [texts] if isinstance(texts, str) else texts
        return list(
            self.stream(
                texts,
                min_confidence=min_confidence,
                target_risk=target_risk,
                level=level,
                reduction=reduction,
                sentences=sentences,
                tokens=tokens,
            )
        )

    def stream(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        reduction: str = AUTO,
        sentences: bool | None = None,
        tokens: bool = False,
    ) -> Iterator[Prediction]:
        """Predict as :meth:`predict`, a few hundred texts at a time."""
        if not 0 <= min_confidence <= 1:
            raise InputError(f"A confidence lies in [0, 1], got {min_confidence}.")
        if tokens and sentences:
            raise InputError("Words that are given are one sentence for each text: leave one out.")
        least = min_confidence
        if target_risk is not None:
            found = self.threshold(target_risk, level, reduction, tokens=tokens)
            least = max(least, found.threshold)
        splits = self.cutting.sentences if sentences is None else sentences
        waiting = iter(texts)
        while batch := list(islice(waiting, _TEXTS)):
            cut = [given_words(t) if tokens else cut_words(t, self.cutting, splits) for t in batch]
            yield from self._batch(cut, least, reduction, tokens)

    def threshold(
        self, target_risk: float, level: float = 0.9, reduction: str = AUTO, *, tokens: bool = False
    ) -> Guarantee:
        """Find the lowest confidence above which at most ``target_risk`` of the entities are wrong.

        See :meth:`~calibrant.tasks.ner.entity_confidence.EntityConfidence.threshold`.
        """
        return self._judge(tokens).threshold(target_risk, level, reduction)

    def entity_map(self, reduction: str = AUTO, *, tokens: bool = False) -> EntityMap:
        """Return the map from words' confidences to their entity's, learned on validation."""
        return self._judge(tokens).entity_map(reduction)

    def _judge(self, tokens: bool) -> EntityConfidence:
        return self._of_words if tokens else self._of_texts

    def _batch(
        self, cut: list[CutText], least: float, reduction: str, tokens: bool
    ) -> Iterator[Prediction]:
        found: list[list[Entity]] = [[] for _ in cut]
        rows = [(i, part) for i, text in enumerate(cut) for part in text.sentences if part]
        if rows:
            raw = self._words([part for _, part in rows])
            for row, entity in self._entities(raw, cut, rows, reduction, tokens):
                found[row].append(entity)
        for text, entities in zip(cut, found, strict=True):
            accepted = tuple(e for e in entities if e.confidence >= least)
            unsure = tuple(e for e in entities if e.confidence < least)
            yield Prediction(text.text, accepted, unsure)

    def _words(self, words: list[list[Word]]) -> Predictions:
        """Predict raw scores, one row per word; the true tags are unknown and set to O."""
        sentences = [Sentence(tuple(w.text for w in found), ("O",) * len(found)) for found in words]
        pieces = encode(sentences, self.labels, self.tokenizer, self.max_length)
        padding = int(self.tokenizer.pad_token_id)
        return predict_words(self.model, pieces, self.labels, padding=padding)

    def _entities(
        self,
        raw: Predictions,
        cut: list[CutText],
        rows: list[tuple[int, list[Word]]],
        reduction: str,
        tokens: bool,
    ) -> Iterator[tuple[int, Entity]]:
        judge = self._judge(tokens)
        source = entity_words(judge.calibrator, raw)
        predictions = judge.calibrator.transform(raw) if source is raw else source
        confidence, predicted, _ = top_label(predictions)
        tags = TagSet.of(self.labels)
        spans = find_spans(predicted, tags, sentence_starts(predictions))
        together = judge.entity_map(reduction)
        values = together.apply(span_confidence(spans, top_label(source)[0], together.reduction_))
        sentence, position = (predictions.groups[name] for name in ("sentence", "position"))
        for start, end, kind, value in _rows(spans, values):
            number, words = rows[int(sentence[start])]
            found = tuple(
                Token(
                    *words[int(position[row])],
                    self.labels[predicted[row]],
                    float(confidence[row]),
                )
                for row in range(start, end)
            )
            first, last = found[0].start, found[-1].end
            text = cut[number].text[first:last]
            place = (int(position[start]), int(position[end - 1]) + 1) if tokens else None
            yield number, Entity(tags.types[kind], first, last, text, value, found, place)


def _rows(spans: Spans, values: np.ndarray) -> Iterator[tuple[int, int, int, float]]:
    columns = (spans.start, spans.end, spans.type, values)
    yield from zip(*(column.tolist() for column in columns), strict=True)
