"""From raw text to entities with type, place and calibrated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.comparison.risk_control import Guarantee
from calibrant.comparison.span_calibrator import AUTO, SpanCalibrator, entity_words
from calibrant.errors import InputError
from calibrant.files import LABELLED
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Spans, find_spans, sentence_starts
from calibrant.metrics.tags import TagSet
from calibrant.old_names import warn_renamed
from calibrant.policies import Policy, calibrator_fingerprint
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.pieces import PieceTokenizer
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.language.words import Word
from calibrant.tasks.ner.cut_text import FIRST_CUTTING, CutText, cut_words, given_words
from calibrant.tasks.ner.entity_confidence import CALIBRATORS, EntityConfidence, write_words
from calibrant.tasks.ner.found_entities import (
    COLUMNS,
    Alternatives,
    Entity,
    Prediction,
    Rows,
    TaggedWords,
    Token,
)
from calibrant.tasks.ner.subword_windows import Pieces, encode
from calibrant.tasks.ner.word_predictions import score_words
from calibrant.tasks.predictor import Acceptance, Predictor, check_top_k
from calibrant.tasks.run_files import write_labels
from calibrant.tasks.scoring import Scorer

__all__ = ["EntityPredictor"]


class _Settings(NamedTuple):
    """What the caller requests for each entity."""

    top_k: int
    reduction: str
    tokens: bool
    accept: Acceptance


class EntityPredictor(Predictor):
    """Finds entities with a token classifier: ``calibrant.load(RUN)`` of a run on tags.

    ``labels`` are BIO tags. ``confidence`` has the calibrator and what was learned about entities,
    for the words that ``cutting`` makes of a text. ``given`` has the same for the words of the
    corpus.
    """

    finds_entities = True
    block = 512

    def __init__(
        self,
        scorer: Scorer,
        tokenizer: PieceTokenizer,
        labels: Sequence[str],
        confidence: EntityConfidence,
        max_length: int = 512,
        *,
        cutting: Cutting = FIRST_CUTTING,
        given: EntityConfidence | None = None,
    ) -> None:
        self.scorer, self.tokenizer, self.labels = scorer, tokenizer, tuple(labels)
        self.calibrator, self.max_length, self.cutting = confidence.calibrator, max_length, cutting
        self._of_texts, self._of_words = confidence, given or confidence
        self.policies = {}

    def __repr__(self) -> str:
        types = ", ".join(TagSet.of(self.labels).types)
        name = self.calibrator.name
        return f"<EntityPredictor of {types}: {self.scorer!r}, calibrated by {name}>"

    def predict(
        self,
        texts: str | Iterable[str | Sequence[str]],
        *,
        top_k: int = 1,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        policy: Policy | str | Path | None = None,
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
        words into one number, from which :meth:`span_calibrator` learns that of the entity.
        With ``target_risk``, entities below :meth:`threshold` at that ``level`` are not accepted;
        with a ``policy``, those that it refuses. ``top_k`` is the number of types of each entity
        that are returned, with the predicted one.
        """
        return list(
            self.stream(
                [texts] if isinstance(texts, str) else texts,
                top_k=top_k,
                min_confidence=min_confidence,
                target_risk=target_risk,
                level=level,
                policy=policy,
                reduction=reduction,
                sentences=sentences,
                tokens=tokens,
            )
        )

    def stream(
        self,
        inputs: Iterable[str | Sequence[str]],
        *,
        top_k: int = 1,
        reduction: str = AUTO,
        sentences: bool | None = None,
        tokens: bool = False,
        batch: int | None = None,
        **options: Any,
    ) -> Iterator[Prediction]:
        """Predict as :meth:`predict`, ``batch`` texts at a time."""
        check_top_k(top_k)
        if tokens and sentences:
            raise InputError(
                "With tokens, each list of words is one sentence: leave tokens or sentences out."
            )
        accept = self.acceptance(**options, reduction=reduction, tokens=tokens)
        splits = self.cutting.sentences if sentences is None else sentences
        if accept.policy is not None and reduction == AUTO:  # Its thresholds are of this one.
            reduction = accept.policy.settings.get("reduction", AUTO)
        settings = _Settings(top_k, reduction, tokens, accept)
        waiting = iter(inputs)
        while part := list(islice(waiting, batch or self.block)):
            cut = [given_words(t) if tokens else cut_words(t, self.cutting, splits) for t in part]
            yield from self._batch(cut, settings)

    def raw_predictions(
        self, inputs: Iterable[str | Sequence[str]], *, tokens: bool = False
    ) -> Iterator[Predictions]:
        """Yield the predictions of the words of texts before the calibrator, in sentences."""
        waiting, first = iter(inputs), 0
        while batch := list(islice(waiting, self.block)):
            cut = [
                given_words(t) if tokens else cut_words(t, self.cutting, self.cutting.sentences)
                for t in batch
            ]
            sentences = [part for text in cut for part in text.sentences if part]
            if sentences:
                found = self._words(sentences)
                groups = {**found.groups, "sentence": found.groups["sentence"] + first}
                groups[LABELLED] = np.zeros(len(found), bool)
                yield replace(found, groups=groups)
                first += len(sentences)

    def threshold(
        self,
        target_risk: float,
        level: float = 0.9,
        reduction: str = AUTO,
        *,
        tokens: bool = False,
    ) -> Guarantee:
        """Find the lowest confidence above which at most ``target_risk`` of the entities are wrong.

        See :meth:`~calibrant.tasks.ner.entity_confidence.EntityConfidence.threshold`.
        """
        return self._judge(tokens).threshold(target_risk, level, reduction)

    def expected_confidence(self) -> float | None:
        """Return the mean confidence of validation entities."""
        found = self._of_texts.judged()[0].confidence
        return float(found.mean()) if len(found) else None

    def span_calibrator(self, reduction: str = AUTO, *, tokens: bool = False) -> SpanCalibrator:
        """Return the calibrator of entities, learned on validation words."""
        return self._judge(tokens).span_calibrator(reduction)

    def entity_map(self, reduction: str = AUTO, *, tokens: bool = False) -> SpanCalibrator:
        """Return ``span_calibrator(…)``: the old name."""
        warn_renamed("EntityPredictor.entity_map", "EntityPredictor.span_calibrator")
        return self.span_calibrator(reduction, tokens=tokens)

    def columns(self, top_k: int, accept: Acceptance) -> list[str]:
        """Return the columns of a table of entities: type, start, end and so on."""
        places = range(2, min(top_k, len(TagSet.of(self.labels).types) + 1) + 1)
        others = [f"{name}_{place}" for place in places for name in ("type", "confidence")]
        review = ["review"] * (accept.policy is not None and accept.policy.review is not None)
        return [*COLUMNS, *review, *others]

    def predict_part(self, part: Pieces, scorer: Scorer) -> Predictions:
        """Predict the encoded words of a split, raw, with a scorer."""
        return score_words(scorer, part, self.labels, padding=self.tokenizer.pad_token_id)

    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return word pieces, some of them padding."""
        return self.tokenizer.example(size)

    def settings(self) -> dict[str, Any]:
        """Return the longest window, and the special pieces of the tokenizer."""
        return {"max_length": self.max_length, "special": self.tokenizer.special()}

    def write_parts(self, folder: Path) -> None:
        """Write labels, calibrators, calibrators of entities, evidence, splitter and tokenizer."""
        write_labels(folder, self.labels)
        judges = {"corpus": self._of_words}
        if self._of_texts is not self._of_words:
            judges["raw"] = self._of_texts
        for name, judge in judges.items():
            judge.calibrator.save(folder / CALIBRATORS[name])
        write_words(folder, judges, self.cutting)
        self.tokenizer.write(folder)

    def _judge(self, tokens: bool) -> EntityConfidence:
        return self._of_words if tokens else self._of_texts

    def _calibrator_of(self, *, tokens: bool = False, **options: Any) -> Calibrator:  # noqa: ARG002
        return self._judge(tokens).calibrator

    def fingerprints(self, **options: Any) -> dict[str, str | None]:
        """Return those of the model and of both calibrators: of words, and of entities."""
        entities = self.span_calibrator(**options).calibrator_
        return {**super().fingerprints(**options), "entities": calibrator_fingerprint(entities)}

    def _check_policy(
        self, policy: Policy, *, reduction: str = AUTO, tokens: bool = False, **options: Any
    ) -> None:
        """Refuse a policy of other words, of another reduction, or not about entities."""
        if policy.settings.get("source") == "entities":
            self._check_reviewed(policy, reduction, tokens)
            return
        words = "corpus" if self._judge(tokens) is self._of_words else "raw"
        if policy.settings.get("words", words) != words:
            made, now = ("texts", "given words") if tokens else ("given words (--tokens)", "texts")
            raise InputError(
                f"This policy was made for {made}, got {now}: make one with 'calibrant guarantee "
                f"RUN{' --tokens' if tokens else ''}'."
            )
        super()._check_policy(policy, tokens=tokens, **options)
        if policy.items != "entities":
            raise InputError(
                f"This policy is about {policy.items}, but this model finds entities: make one "
                "with 'calibrant guarantee --target-risk' or '--max-missed' on its validation "
                "split."
            )
        made = policy.settings.get("reduction", reduction)
        if reduction not in (AUTO, made):
            raise InputError(
                f"This policy was made with the reduction '{made}', got '{reduction}': leave "
                f"--reduction out, or run 'calibrant guarantee' with --reduction {reduction}."
            )
        self._check_entity_calibrator(policy, made, tokens)

    def _check_entity_calibrator(self, policy: Policy, reduction: str, tokens: bool) -> None:
        """Refuse thresholds of confidences that another calibrator of entities made."""
        made_for = policy.settings.get("entity_calibrator")
        if policy.kind != "target-risk" or made_for is None:  # Older policies lack it.
            return
        if made_for != calibrator_fingerprint(
            self.span_calibrator(reduction, tokens=tokens).calibrator_
        ):
            raise InputError(
                "This policy was made for another calibrator of entities: run 'calibrant guarantee "
                "RUN' again."
            )

    def _check_reviewed(self, policy: Policy, reduction: str, tokens: bool) -> None:
        """Refuse a policy of a file's entities, unless people reviewed what this run predicts."""
        run = policy.settings.get("run")
        if run is None:
            raise InputError(
                "This policy is about entities of a file, not of a run: make one with 'calibrant "
                "guarantee RUN'."
            )
        if run != self.fingerprints() or tokens or reduction != AUTO:
            raise InputError(
                "This policy was made from a review of texts, predicted by another run or with "
                "other options: make one with 'calibrant guarantee RUN'."
            )

    def _batch(self, cut: list[CutText], settings: _Settings) -> Iterator[Prediction]:
        found: list[list[Entity]] = [[] for _ in cut]
        refused: list[list[Entity]] = [[] for _ in cut]
        review: list[list[Token]] = [[] for _ in cut]
        rows = [(i, part) for i, text in enumerate(cut) for part in text.sentences if part]
        policy = settings.accept.policy
        if rows:
            words = self._tagged(self._words([part for _, part in rows]), rows, settings.tokens)
            entities = list(self._entities(words, cut, settings))
            for number, entity, accepted in entities:
                (found if accepted else refused)[number].append(entity)
            if policy is not None and policy.review is not None:
                accepts = np.array([accepted for _, _, accepted in entities], bool)
                for row in np.flatnonzero(policy.to_review(words.calibrated, accepts)).tolist():
                    review[words.text(row)].append(words.token(row))
        reviewed = policy is not None and policy.review is not None
        for number, text in enumerate(cut):
            seen = tuple(review[number]) if reviewed else None
            yield Prediction(text.text, tuple(found[number]), tuple(refused[number]), seen)

    def _words(self, words: list[list[Word]]) -> Predictions:
        """Predict raw scores, one row per word; the true tags are unknown and set to O."""
        sentences = [Sentence(tuple(w.text for w in found), ("O",) * len(found)) for found in words]
        pieces = encode(sentences, self.labels, self.tokenizer, self.max_length)
        padding = self.tokenizer.pad_token_id
        return score_words(self.scorer, pieces, self.labels, padding=padding)

    def _tagged(self, raw: Predictions, rows: Rows, tokens: bool) -> TaggedWords:
        calibrator = self._judge(tokens).calibrator
        source = entity_words(calibrator, raw)
        calibrated = calibrator.transform(raw) if source is raw else source
        return TaggedWords(source, calibrated, self.labels, rows)

    def _entities(
        self, words: TaggedWords, cut: list[CutText], settings: _Settings
    ) -> Iterator[tuple[int, Entity, bool]]:
        """Yield the number of the text, the entity, and whether it is accepted."""
        tags = TagSet.of(self.labels)
        spans = find_spans(words.predicted, tags, sentence_starts(words.calibrated))
        together = self._judge(settings.tokens).span_calibrator(settings.reduction)
        values = together.of_spans(words.source, spans, top_label(words.source)[0])
        types = [tags.types[kind] for kind in spans.type.tolist()]
        accepted = self._accepted(words, spans, values, types, settings.accept).tolist()
        others = Alternatives(words.calibrated, tags, settings.top_k)
        columns = (spans.start.tolist(), spans.end.tolist(), types, values.tolist(), accepted)
        for start, end, kind, value, accept in zip(*columns, strict=True):
            found = tuple(words.token(row) for row in range(start, end))
            number, (first, last) = words.text(start), (found[0].start, found[-1].end)
            place = cut[number].place(*words.place(start, end)) if settings.tokens else None
            alternatives = others.of(start, end, kind, value)
            text = cut[number].text[first:last]
            yield number, Entity(kind, first, last, text, value, found, place, alternatives), accept

    def _accepted(
        self,
        words: TaggedWords,
        spans: Spans,
        values: np.ndarray,
        types: list[str],
        accept: Acceptance,
    ) -> np.ndarray:
        policy = accept.policy
        if policy is None or policy.reduction is None or policy.kind != "target-risk":
            return accept.decide(values, types)
        # Its thresholds are those of a reduction of the words' confidences, not of the learned one.
        reduced: Any = policy.reduction
        own = span_confidence(spans, top_label(words.calibrated)[0], reduced)
        return np.asarray((values >= accept.least) & policy.decide(own, types))
