"""Labelled examples that the model of a finished run is asked about, as they are or corrupted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

import numpy as np

from calibrant.corruptions import IMAGE, TEXT, corrupt_text
from calibrant.errors import InputError
from calibrant.experiments.evaluation_target import Tested
from calibrant.experiments.labelled_scenes import LabelledScenes
from calibrant.experiments.shift import ignoring
from calibrant.prediction.loading import read_cutting
from calibrant.prediction.model_folder import load_model
from calibrant.prediction.run_files import check_labels
from calibrant.predictions import Predictions
from calibrant.tasks.image.classifier import load_classifier
from calibrant.tasks.image.picture_files import in_channels
from calibrant.tasks.image.pictures import load_test_pictures
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentence
from calibrant.tasks.ner.corpora.shared_types import in_types_of
from calibrant.tasks.ner.corpus import load_test
from calibrant.tasks.ner.subword_windows import encode
from calibrant.tasks.text.corpus import load_test_texts
from calibrant.tasks.text.encoded_texts import encode_texts
from calibrant.training.class_logits import image_logits, text_logits
from calibrant.training.images import Images
from calibrant.training.prediction import predict_words

__all__ = ["LABELLED", "LabelledExamples"]

T = TypeVar("T")


class LabelledExamples(Protocol):
    """The examples of one task with the model of one run."""

    kinds: Collection[str]  # what they can be corrupted by

    def __init__(self, tested: Tested) -> None: ...

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """The predictions of the model, for the examples corrupted or as they are."""


class TaggedSentences:
    """Sentences; where their tags are not all known, on the entity types that are shared."""

    kinds: Collection[str] = TEXT

    def __init__(self, tested: Tested) -> None:
        self.model, self.tokenizer = load_model(tested.run.model)
        self.model.to(tested.device)
        self.labels, self.max_length = tested.run.labels(), tested.recipe.max_length
        check_labels(tested.run.path, self.labels, self.model)
        named = tested.recipe.test_file if tested.own else ""
        cutting = read_cutting(tested.run.path)
        found = _some(load_test(named or tested.data, tested.directory, cutting), tested.data)
        self.raw = any(sentence.text is not None for sentence in found)
        known = set(self.labels)
        if all(tag in known for sentence in found for tag in sentence.tags):
            self.sentences, self.judged = found, [[True] * len(s) for s in found]
        else:
            self.sentences, self.judged = in_types_of(self.labels, found, tested.data)

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """One row per word."""
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


class LabelledTexts:
    """Texts with one class each."""

    kinds: Collection[str] = TEXT

    def __init__(self, tested: Tested) -> None:
        self.model, self.tokenizer = load_model(tested.run.model, unit="sequence")
        self.model.to(tested.device)
        self.labels, self.max_length = tested.run.labels(), tested.recipe.max_length
        check_labels(tested.run.path, self.labels, self.model)
        data = tested.data
        found = _some(load_test_texts(data, tested.directory, whole=not tested.own), data)
        self.texts = [text for text, _ in found]
        self.classes = _numbered([label for _, label in found], self.labels, data)

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """One row per text."""
        texts = self.texts
        if corruption is not None:
            texts = [
                corrupt_text(text, *corruption, seed=seed, number=number)
                for number, text in enumerate(texts)
            ]
        encoded = encode_texts(texts, self.classes, self.tokenizer, self.max_length)
        logits = text_logits(self.model, encoded, int(self.tokenizer.pad_token_id))
        return Predictions.from_logits(logits, self.classes, label_names=self.labels)


class LabelledImages:
    """Images with one class each."""

    kinds: Collection[str] = IMAGE

    def __init__(self, tested: Tested) -> None:
        self.model, self.about = load_classifier(tested.run.model)
        self.model.to(tested.device)
        self.device, self.labels, data = tested.device, tested.run.labels(), tested.data
        images, labels = load_test_pictures(
            data, tested.directory, tested.recipe.image_size or None, whole=not tested.own
        )
        self.images = in_channels(images, self.about["channels"])
        self.classes = _numbered(_some(labels, data), self.labels, data)
        expected = (self.about["size"], self.about["size"], self.about["channels"])
        if self.images.shape[1:] != expected:
            raise InputError(
                f"{data}: expected images {expected}, which the model was trained on, got "
                f"{self.images.shape[1:]}."
            )

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """One row per image."""
        from calibrant.corruptions.image import corrupt_bytes

        images = self.images
        if corruption is not None:
            images = corrupt_bytes(images, *corruption, seed=seed, device=self.device)
        normal = {name: self.about[name] for name in ("mean", "deviation")}
        logits = image_logits(
            self.model, Images(images, np.asarray(self.classes), self.device, **normal)
        )
        return Predictions.from_logits(logits, self.classes, label_names=self.labels)


LABELLED: dict[str, type[LabelledExamples]] = {
    "ner": TaggedSentences,
    "text": LabelledTexts,
    "image": LabelledImages,
    "segmentation": LabelledScenes,
}


def _some(examples: list[T], data: str) -> list[T]:
    if not examples:
        raise InputError(f"{data} holds no labelled example.")
    return examples


def _numbered(labels: Sequence[str], known: Sequence[str], data: str) -> list[int]:
    numbers = {label: number for number, label in enumerate(known)}
    unknown = next((label for label in labels if label not in numbers), None)
    if unknown is not None:
        raise InputError(
            f"{data}, example {labels.index(unknown) + 1}: the run knows no label '{unknown}'; it "
            f"has {', '.join(known[:8])}{', …' if len(known) > 8 else ''}."
        )
    return [numbers[label] for label in labels]
