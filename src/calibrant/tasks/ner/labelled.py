"""Sentences to evaluate the model of a finished run on, unchanged or corrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.comparison import SpanCalibrator
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.feature_signals import with_saved_signals
from calibrant.tasks.label_matching import in_tags_of
from calibrant.tasks.language.marked_text import ends_note
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentence
from calibrant.tasks.ner.corpora.shared_types import in_types_of
from calibrant.tasks.ner.corpus import load_test
from calibrant.tasks.ner.finished_run import CORPUS, RAW, read_cutting, read_judges
from calibrant.tasks.ner.shift import ignoring
from calibrant.tasks.ner.subword_windows import encode
from calibrant.tasks.ner.word_predictions import predict_words
from calibrant.tasks.reading.class_labels import some_examples
from calibrant.tasks.run_files import check_labels
from calibrant.tasks.task import EvaluationTarget, LabelledExamples

__all__ = ["TaggedSentences"]


class TaggedSentences(LabelledExamples):
    """Sentences; if some tags are unknown, judged on the entity types that are shared."""

    def __init__(self, target: EvaluationTarget) -> None:
        model, self.tokenizer = load_model(target.run.model)
        self.folder = target.run.path
        self.labels, self.max_length = target.run.labels(), target.recipe.max_length
        check_labels(target.run.path, self.labels, model)
        self.model = with_saved_signals(model, target.run.path).to(target.device)
        named = target.recipe.test_file if target.own else ""
        cutting = read_cutting(target.run.path)
        found = some_examples(
            load_test(named or target.data, target.directory, cutting), target.data
        )
        self.notes = ends_note(found)
        found = [replace(s, tags=in_tags_of(self.labels, s.tags)) for s in found]
        raw = any(sentence.text is not None for sentence in found)
        # Whether the run has a calibrator for raw text.
        self.raw = raw and target.run.predictions("raw_valid").exists()
        known = set(self.labels)
        if all(tag in known for sentence in found for tag in sentence.tags):
            self.sentences, self.judged = found, [[True] * len(s) for s in found]
        else:
            self.sentences, self.judged = in_types_of(self.labels, found, target.data)
            self.notes += _left_out(found, self.judged)

    def validation(self, training: Mapping[str, Any]) -> tuple[str, str]:
        """Name the predictions and the calibrator of raw text, if this is raw text."""
        if self.raw:
            return "raw_valid", training["raw_text"]["calibrator"]
        return super().validation(training)

    def entities(self) -> SpanCalibrator:
        """Return what the run learned of words that were cut in this way."""
        return read_judges(self.folder, self.labels)[RAW if self.raw else CORPUS].span_calibrator()

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per word."""
        sentences, judged = self._corrupted(corruption, seed)
        pieces = ignoring(encode(sentences, self.labels, self.tokenizer, self.max_length), judged)
        padding = int(self.tokenizer.pad_token_id)
        return predict_words(self.model, pieces, self.labels, padding=padding)

    def _corrupted(
        self, corruption: tuple[str, int] | None, seed: int
    ) -> tuple[list[Sentence], list[list[bool]]]:
        if corruption is None:
            return self.sentences, self.judged
        made = [
            corrupt_sentence(sentence, *corruption, seed=seed, number=number)
            for number, sentence in enumerate(self.sentences)
        ]
        judged = [
            [judge for judge, stays in zip(whole, kept, strict=True) if stays]
            for whole, (_, kept) in zip(self.judged, made, strict=True)
        ]
        return [sentence for sentence, _ in made], judged


def _left_out(sentences: Sequence[Sentence], judged: Sequence[Sequence[bool]]) -> tuple[str, ...]:
    """Say how many words are of types that the run does not know, if there are any."""
    pairs = zip(sentences, judged, strict=True)
    tags = [t for s, row in pairs for t, judge in zip(s.tags, row, strict=True) if not judge]
    if not tags:
        return ()
    words = "1 word is" if len(tags) == 1 else f"{len(tags):,} words are"
    names = ", ".join(sorted({tag[2:] for tag in tags}))
    return (f"{words} left out of all numbers: the run knows no type {names}.",)
