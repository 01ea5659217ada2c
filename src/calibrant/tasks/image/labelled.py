"""Images that the model of a finished run is evaluated on, as they are or corrupted."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InputError
from calibrant.predictions import Predictions
from calibrant.tasks.image.classifier import image_logits, load_classifier
from calibrant.tasks.image.picture_files import in_channels
from calibrant.tasks.image.pictures import load_test_pictures
from calibrant.tasks.reading.class_labels import known_classes, some_examples
from calibrant.tasks.task import EvaluationTarget, LabelledExamples
from calibrant.training.images import Images

__all__ = ["LabelledImages"]


class LabelledImages(LabelledExamples):
    """Images with one class each."""

    def __init__(self, target: EvaluationTarget) -> None:
        self.model, self.about = load_classifier(target.run.model)
        self.model.to(target.device)
        self.device, self.labels, data = target.device, target.run.labels(), target.data
        images, labels = load_test_pictures(
            data, target.directory, target.recipe.image_size or None, whole=not target.own
        )
        self.images = in_channels(images, self.about["channels"])
        self.classes = known_classes(some_examples(labels, data), self.labels, data)
        expected = (self.about["size"], self.about["size"], self.about["channels"])
        if self.images.shape[1:] != expected:
            raise InputError(
                f"{data}: expected images {expected}, which the model was trained on, got "
                f"{self.images.shape[1:]}."
            )

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per image."""
        from calibrant.corruptions.image import corrupt_bytes

        images = self.images
        if corruption is not None:
            images = corrupt_bytes(images, *corruption, seed=seed, device=self.device)
        normal = {name: self.about[name] for name in ("mean", "deviation")}
        logits = image_logits(
            self.model, Images(images, np.asarray(self.classes), self.device, **normal)
        )
        return Predictions.from_logits(logits, self.classes, label_names=self.labels)
