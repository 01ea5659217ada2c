"""Texts that the model of a finished run is evaluated on, as they are or corrupted."""

from __future__ import annotations

from calibrant.corruptions import corrupt_text
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.reading.class_labels import known_classes, some_examples
from calibrant.tasks.run_files import check_labels
from calibrant.tasks.task import EvaluationTarget, LabelledExamples
from calibrant.tasks.text.corpus import load_test_texts
from calibrant.tasks.text.encoded_texts import encode_texts, text_logits

__all__ = ["LabelledTexts"]


class LabelledTexts(LabelledExamples):
    """Texts with one class each."""

    def __init__(self, target: EvaluationTarget) -> None:
        self.model, self.tokenizer = load_model(target.run.model, unit="sequence")
        self.model.to(target.device)
        self.labels, self.max_length = target.run.labels(), target.recipe.max_length
        check_labels(target.run.path, self.labels, self.model)
        data = target.data
        found = some_examples(load_test_texts(data, target.directory, whole=not target.own), data)
        self.texts = [text for text, _ in found]
        self.classes = known_classes([label for _, label in found], self.labels, data)

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per text."""
        texts = self.texts
        if corruption is not None:
            texts = [
                corrupt_text(text, *corruption, seed=seed, number=number)
                for number, text in enumerate(texts)
            ]
        encoded = encode_texts(texts, self.classes, self.tokenizer, self.max_length)
        logits = text_logits(self.model, encoded, int(self.tokenizer.pad_token_id))
        return Predictions.from_logits(logits, self.classes, label_names=self.labels)
