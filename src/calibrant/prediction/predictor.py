"""From raw text to entities with type, place and calibrated confidence."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.comparison.entity_map import (
    AUTO,
    EntityMap,
    entity_words,
    new_entity_words,
)
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Spans, find_spans, sentence_starts
from calibrant.metrics.tags import TagSet
from calibrant.prediction.risk_control import THRESHOLDS, Guarantee, guaranteed_threshold
from calibrant.predictions import Predictions
from calibrant.tasks.pieces import encode
from calibrant.tasks.sentences import Sentence
from calibrant.tasks.words import FIRST, Word, split_words
from calibrant.training.prediction import predict_words

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
    """``text[start:end]`` is a ``type`` with this confidence: such entities are right so often.

    That of a token is of its tag alone; see :class:`~calibrant.comparison.EntityMap`.
    """

    type: str
    start: int
    end: int
    text: str
    confidence: float
    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class Prediction:
    """A text, its accepted entities, and those too unsure to be accepted."""

    text: str
    entities: tuple[Entity, ...]
    abstained: tuple[Entity, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


class Predictor:
    """A trained token classifier with its map and validation predictions: ``calibrant.load(RUN)``.

    ``tokenizer`` and ``model`` are those of transformers, ``labels`` BIO tags, ``calibrator`` the
    fitted map, and ``valid`` the raw validation predictions that a target risk is judged by.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str],
        calibrator: Calibrator,
        valid: Predictions,
        max_length: int = 512,
    ) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, tuple(labels)
        self.calibrator, self.valid, self.max_length = calibrator, valid, max_length
        self._entity_maps: dict[str, EntityMap] = {}

    def predict(
        self,
        texts: str | Iterable[str],
        *,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        reduction: str = AUTO,
    ) -> list[Prediction]:
        """The entities of each text.

        ``reduction`` ("auto", "product", "min" or "mean") makes one number of the confidences of
        an entity's words, from which its own is learned: :meth:`entity_map`. With ``target_risk``
        entities are accepted from :meth:`threshold` on, at that ``level``.
        """
        texts = [texts] if isinstance(texts, str) else texts
        return list(
            self.stream(
                texts,
                min_confidence=min_confidence,
                target_risk=target_risk,
                level=level,
                reduction=reduction,
            )
        )

    def stream(
        self,
        texts: Iterable[str],
        *,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        reduction: str = AUTO,
    ) -> Iterator[Prediction]:
        """As :meth:`predict`, a few hundred texts at a time."""
        if not 0 <= min_confidence <= 1:
            raise InputError(f"A confidence lies in [0, 1], got {min_confidence}.")
        least = min_confidence
        if target_risk is not None:
            least = max(least, self.threshold(target_risk, level, reduction).threshold)
        waiting = iter(texts)
        while batch := list(islice(waiting, _TEXTS)):
            yield from self._batch(batch, least, reduction)

    def threshold(self, target_risk: float, level: float = 0.9, reduction: str = AUTO) -> Guarantee:
        """The loosest confidence from which on at most ``target_risk`` of the entities are wrong.

        It holds with probability ``level``, for texts like those of the validation split: see
        :mod:`calibrant.prediction.risk_control`.
        """
        together = self.entity_map(reduction)
        found = together.transform(self._valid_words)
        # The map of entities never decreases: thresholds of what it makes are thresholds of what it
        # is given, which stood before validation was seen.
        return guaranteed_threshold(
            found.confidence,
            found.correct,
            target_risk,
            level,
            thresholds=together.apply(THRESHOLDS),
        )

    def entity_map(self, reduction: str = AUTO) -> EntityMap:
        """From the confidences of words to that of their entity, learned on validation."""
        if reduction not in self._entity_maps:
            self._entity_maps[reduction] = EntityMap(reduction).fit(self._valid_words)
        return self._entity_maps[reduction]

    @functools.cached_property
    def _valid_words(self) -> Predictions:
        return new_entity_words(self.calibrator, self.valid)

    def _batch(self, texts: list[str], least: float, reduction: str) -> Iterator[Prediction]:
        words = [split_words(text, FIRST) for text in texts]
        filled = [number for number, found in enumerate(words) if found]
        entities: list[list[Entity]] = [[] for _ in texts]
        if filled:
            made = self._words([words[number] for number in filled])
            for sentence, entity in self._entities(made, texts, words, filled, reduction):
                entities[sentence].append(entity)
        for text, found in zip(texts, entities, strict=True):
            accepted = tuple(e for e in found if e.confidence >= least)
            yield Prediction(text, accepted, tuple(e for e in found if e.confidence < least))

    def _words(self, words: list[list[Word]]) -> Predictions:
        """Raw predictions, one row per word; the true tags are unknown and set to O."""
        sentences = [Sentence(tuple(w.text for w in found), ("O",) * len(found)) for found in words]
        pieces = encode(sentences, self.labels, self.tokenizer, self.max_length)
        padding = int(self.tokenizer.pad_token_id)
        return predict_words(self.model, pieces, self.labels, padding=padding)

    def _entities(
        self,
        raw: Predictions,
        texts: list[str],
        words: list[list[Word]],
        filled: list[int],
        reduction: str,
    ) -> Iterator[tuple[int, Entity]]:
        source = entity_words(self.calibrator, raw)
        predictions = self.calibrator.transform(raw) if source is raw else source
        confidence, predicted, _ = top_label(predictions)
        tags = TagSet.of(self.labels)
        spans = find_spans(predicted, tags, sentence_starts(predictions))
        together = self.entity_map(reduction)
        values = together.apply(span_confidence(spans, top_label(source)[0], together.reduction_))
        for start, end, kind, value in _rows(spans, values):
            number = filled[int(predictions.groups["sentence"][start])]
            tokens = tuple(
                Token(
                    *words[number][int(predictions.groups["position"][row])],
                    self.labels[predicted[row]],
                    float(confidence[row]),
                )
                for row in range(start, end)
            )
            first, last = tokens[0].start, tokens[-1].end
            text = texts[number][first:last]
            yield number, Entity(tags.types[kind], first, last, text, value, tokens)


def _rows(spans: Spans, values: np.ndarray) -> Iterator[tuple[int, int, int, float]]:
    columns = (spans.start, spans.end, spans.type, values)
    yield from zip(*(column.tolist() for column in columns), strict=True)
