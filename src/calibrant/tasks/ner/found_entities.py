"""What is found in a text: entities with type, place and calibrated confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.metrics.confidences import top_label
from calibrant.metrics.tags import TagSet
from calibrant.predictions import Predictions
from calibrant.tasks.class_predictor import Ranked
from calibrant.tasks.language.words import Word

__all__ = ["COLUMNS", "Alternatives", "Entity", "Prediction", "Rows", "TaggedWords", "Token"]

COLUMNS = ("type", "start", "end", "confidence", "entity", "accepted")  # Of a table.
Rows = list[tuple[int, list[Word]]]  # The number of the text of each sentence, and its words.


@dataclass(frozen=True)
class Token:
    """A word of an entity with the confidence of its tag.

    The confidence is right on average over all words, most of which are O: it can be lower than
    that of an entity of this word alone, which is learned on entities.
    """

    text: str
    start: int
    end: int
    tag: str
    confidence: float


@dataclass(frozen=True)
class Entity:
    """``text[start:end]`` is a ``type``, with the probability ``confidence``.

    It is learned for whole entities (:class:`~calibrant.comparison.SpanCalibrator`); that of a
    token is that of its tag alone. ``words`` are the numbers of the first word and of the word
    after the last; None unless the caller gave words. ``alternatives`` are other types of the same
    words, and "O" for no entity: they share 1 − ``confidence`` in proportion to the products of
    their words' calibrated probabilities.
    """

    type: str
    start: int
    end: int
    text: str
    confidence: float
    tokens: tuple[Token, ...]
    words: tuple[int, int] | None = None
    alternatives: tuple[Ranked, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """A text, its accepted entities, and those below the threshold.

    ``review`` has the words that a policy with ``--max-missed`` sends to review.
    """

    text: str
    entities: tuple[Entity, ...]
    abstained: tuple[Entity, ...] = ()
    review: tuple[Token, ...] | None = None

    def cells(self) -> list[dict[str, Any]]:
        """Return a row of a table for each entity, and for each word to review.

        Columns are those of :meth:`EntityPredictor.columns`.
        """
        rows = []
        for entity, accepted in (
            *((entity, True) for entity in self.entities),
            *((entity, False) for entity in self.abstained),
        ):
            row = {name: getattr(entity, name) for name in COLUMNS[:-2]}
            row |= {"entity": entity.text, "accepted": accepted}
            for place, other in enumerate(entity.alternatives, start=2):
                row |= {f"type_{place}": other.label, f"confidence_{place}": other.confidence}
            rows.append(row)
        if self.review is not None:
            rows = [{**row, "review": False} for row in rows] + [_reviewed(t) for t in self.review]
        return sorted(rows, key=lambda row: int(row["start"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as data for JSON."""
        content = asdict(self)
        for entity in (*content["entities"], *content["abstained"]):
            for name in ("words", "alternatives"):
                if not entity[name]:
                    del entity[name]
        if self.review is None:
            del content["review"]
        return content


def _reviewed(word: Token) -> dict[str, Any]:
    """Return the row of a word that a person should check; it is not an entity."""
    place = {"start": word.start, "end": word.end, "entity": word.text}
    return {**place, "accepted": False, "review": True}


class TaggedWords:
    """The words of a batch with their tags; rows are those of the predictions."""

    def __init__(
        self,
        source: Predictions,
        calibrated: Predictions,
        labels: Sequence[str],
        rows: Rows,
    ) -> None:
        self.source, self.calibrated = source, calibrated
        self.labels, self.rows = labels, rows
        confidence, self.predicted, _ = top_label(calibrated)
        self._confidence, self._tag = confidence.tolist(), self.predicted.tolist()
        self._sentence, self._position = (
            calibrated.groups[name].tolist() for name in ("sentence", "position")
        )

    def text(self, row: int) -> int:
        """Return the number of the text that a word belongs to."""
        return int(self.rows[self._sentence[row]][0])

    def token(self, row: int) -> Token:
        """Return a word with its tag."""
        word = self.rows[self._sentence[row]][1][self._position[row]]
        return Token(
            word.text, word.start, word.end, self.labels[self._tag[row]], self._confidence[row]
        )

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the numbers of the first word of an entity and of the word after its last."""
        return self._position[start], self._position[end - 1] + 1


class Alternatives:
    """Other types of the words of an entity, and no entity."""

    def __init__(self, words: Predictions, tags: TagSet, top_k: int) -> None:
        self.top_k, self.names = top_k, (*tags.types, "O")
        if top_k > 1:
            scores = np.asarray(words.probabilities(), np.float64)
            kind = np.where(tags.type < 0, len(tags.types), tags.type)
            sums = scores @ np.eye(len(self.names))[kind]  # P(type) of each word, over its tags.
            self.logs = np.log(np.maximum(sums, np.finfo(np.float64).tiny))

    def of(self, start: int, end: int, kind: str, confidence: float) -> tuple[Ranked, ...]:
        """Return the most probable other types of the words from ``start`` to ``end``."""
        if self.top_k == 1:
            return ()
        weight = self.logs[start:end].sum(axis=0)
        weight = np.exp(weight - weight.max())
        weight[self.names.index(kind)] = 0.0
        total = float(weight.sum())
        shares = (1 - confidence) * weight / total if total else weight
        order = np.argsort(-shares, kind="stable")
        own = self.names.index(kind)
        chosen = [int(k) for k in order if k != own][: self.top_k - 1]
        return tuple(Ranked(self.names[k], float(shares[k])) for k in chosen)
