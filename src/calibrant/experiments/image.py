"""Image classification as a task to be trained."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from calibrant.corruptions import IMAGE, known_corruption
from calibrant.errors import InputError, unknown_name
from calibrant.experiments.fingerprint import data_state
from calibrant.experiments.ner_data import build_method
from calibrant.experiments.recipe import Recipe
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.image.classifier import (
    IMAGE_MODELS,
    ImageClassifier,
    Shape,
    build_classifier,
    write_classifier,
)
from calibrant.tasks.image.pictures import Pictures, find_pictures, load_pictures
from calibrant.tasks.reading.splits import carve
from calibrant.training.class_logits import image_logits
from calibrant.training.images import Images, parse_augmentation

__all__ = ["Image", "Part", "PreparedImages"]

_SEED = 0  # Of corruptions and of the held-out part: the same in every run.


class Part(NamedTuple):
    """Images (n, height, width, channels) of bytes and their classes, −100 for none."""

    images: np.ndarray
    classes: np.ndarray


@dataclass(frozen=True, eq=False)
class PreparedImages:
    """Images by split, and what they are normalised and augmented with.

    ``mean`` and ``deviation`` are those of the training split. ``held`` is taken from it where a
    method needs it; ``ood`` may hold images of no class.
    """

    name: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    splits: Mapping[str, Part]
    mean: np.ndarray
    deviation: np.ndarray
    augment: frozenset[str]

    @property
    def shape(self) -> Shape:
        """Of the images."""
        _, height, width, channels = self.splits["train"].images.shape
        if height != width:
            raise InputError(
                f"Networks take square images, got {height}×{width} from '{self.name}': set "
                "image_size, to which they are brought."
            )
        return Shape(channels, height)

    @property
    def parts(self) -> dict[str, Part]:
        """What is predicted; an out-of-domain part only if some of it has classes."""
        found = {"valid": self.splits["dev"], "test": self.splits["test"]}
        ood = self.splits.get("ood")
        if ood is not None and (ood.classes != IGNORED).any():
            found["ood"] = ood
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all images and labels."""
        digest = hashlib.sha256("\0".join(self.labels).encode())
        for split in sorted(self.splits):
            for values in self.splits[split]:
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def windows(self, device: str) -> tuple[Images, Images | None]:
        """The training part, augmented, and the held-out one as it is, on a device."""
        if torch.device(device).type == "cuda":
            torch.backends.cudnn.benchmark = True  # All batches are of one size.
        return _windows(self, device)

    def predict(self, model: nn.Module, part: Part) -> Predictions:
        """One row per image that has a class."""
        logits = self._logits(model, part.images)
        return Predictions.from_logits(logits, part.classes, label_names=self.labels)

    def outside(self, model: nn.Module) -> np.ndarray | None:
        """The logits of the out-of-domain images of no class."""
        ood = self.splits.get("ood")
        if ood is None or not (ood.classes == IGNORED).any():
            return None
        return self._logits(model, ood.images[ood.classes == IGNORED])

    def on_device(self, part: Part, device: Any, augment: frozenset[str] = frozenset()) -> Images:
        """Some images on a device, normalised as those of training."""
        normal: dict[str, Any] = {"mean": self.mean, "deviation": self.deviation}
        return Images(*part, device, **normal, augment=augment)

    def _logits(self, model: nn.Module, images: np.ndarray) -> np.ndarray:
        device = next(model.parameters()).device
        unlabelled = np.zeros(len(images), np.int64)
        return image_logits(model, self.on_device(Part(images, unlabelled), device))


class Image:
    """A network by name, from scratch, on images that lie on the device."""

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Images, network and corruptions are there, as far as names tell."""
        find_pictures(recipe.data, directory)
        if recipe.model not in IMAGE_MODELS:
            raise unknown_name("image model", recipe.model, IMAGE_MODELS)
        for name in recipe.shift:
            known_corruption(name, IMAGE, of="images")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> PreparedImages:
        """Load the images of a recipe."""
        held = build_method(recipe).needs_holdout
        augment = parse_augmentation(recipe.augment)
        state = data_state(recipe.data, "image", directory)
        return _prepare(recipe.data, directory, recipe.image_size, held, augment, state)

    def build_model(self, recipe: Recipe, data: PreparedImages) -> nn.Module:
        """The network, its weights drawn from the recipe's seed, channels last in memory."""
        model = build_classifier(
            recipe.model,
            data.shape,
            len(data.labels),
            recipe.seed,
            width=recipe.head_width,
            depth=recipe.head_depth,
            activation=recipe.head_activation,
        )
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if recipe.compile:
            # Without the head: a method looks at what goes into it, and runs it again.
            model.encoder.compile()
        return model

    def write_model(
        self, recipe: Recipe, data: PreparedImages, model: ImageClassifier, folder: Path
    ) -> None:
        """See :func:`~calibrant.tasks.image.classifier.write_classifier`."""
        about = {
            "model": recipe.model,
            **data.shape._asdict(),
            "labels": list(data.labels),
            "mean": data.mean.tolist(),
            "deviation": data.deviation.tolist(),
            "width": recipe.head_width,
            "depth": recipe.head_depth,
            "activation": recipe.head_activation,
        }
        write_classifier(model, folder, about)

    def shifted(
        self,
        recipe: Recipe,
        data: PreparedImages,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, Part]:
        """The test split corrupted: ``jpeg-3`` and so on, the same in every run."""
        return {name: _corrupted(name, data) for name in recipe.shift}


@functools.lru_cache(maxsize=2)
def _pictures(
    name: str,
    directory: str | None,
    size: int,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> Pictures:
    return load_pictures(name, directory, size=size or None)


@functools.lru_cache(maxsize=4)
def _prepare(
    name: str,
    directory: str | None,
    size: int,
    held: bool,
    augment: frozenset[str],
    state: str,
) -> PreparedImages:
    pictures = _pictures(name, directory, size, state)
    splits = {s: Part(pictures.images[s], pictures.classes[s]) for s in pictures.images}
    train = splits["train"]
    if held:
        both = carve(range(len(train.classes)), _SEED, name)
        for split, rows in zip(("train", "held"), both, strict=True):
            splits[split] = Part(train.images[rows], train.classes[rows])
    mean = train.images.mean((0, 1, 2), dtype=np.float64)
    # A channel that is the same everywhere is left at zero.
    deviation = np.maximum(train.images.std((0, 1, 2), dtype=np.float64), 1e-3)
    notes = tuple(pictures.notes)
    return PreparedImages(name, pictures.labels, notes, splits, mean, deviation, augment)


@functools.lru_cache(maxsize=4)
def _windows(data: PreparedImages, device: str) -> tuple[Images, Images | None]:
    held = data.splits.get("held")
    train = data.on_device(data.splits["train"], device, data.augment)
    return train, None if held is None else data.on_device(held, device)


@functools.lru_cache(maxsize=64)
def _corrupted(name: str, data: PreparedImages) -> Part:
    from calibrant.corruptions.image import corrupt_bytes

    asked = known_corruption(name, IMAGE, of="images")
    test = data.splits["test"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Part(corrupt_bytes(test.images, *asked, seed=_SEED, device=device), test.classes)
