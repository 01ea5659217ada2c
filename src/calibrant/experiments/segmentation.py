"""Semantic segmentation as a task to be trained."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.corruptions import IMAGE, known_corruption
from calibrant.errors import InputError
from calibrant.experiments.fingerprint import data_state
from calibrant.experiments.ner_data import build_method
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.sampled_pixels import sampled_pixels, told_sample
from calibrant.methods import InputMixup
from calibrant.metrics.segmentation_example import Scene
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.reading.splits import carve
from calibrant.tasks.segmentation.corrupted_scenes import CorruptedScenes
from calibrant.tasks.segmentation.mask_folder import VOID
from calibrant.tasks.segmentation.scenes import SHAPES, find_scenes
from calibrant.tasks.segmentation.segmentation_task import Pixels, SegmentationTask
from calibrant.tasks.segmentation.segmenter import Segmenter, build_segmenter, write_segmenter
from calibrant.training.images import Images
from calibrant.training.pixel_logits import pixel_logits

__all__ = ["PreparedScenes", "Segmentation"]

_SEED = 0  # Of the data, its corruptions, samples and the held-out part: the same in every run.
_SHOWN = 4  # Test images in the report.


@dataclass(frozen=True, eq=False)
class PreparedScenes:
    """Images and masks by split. Images that are predicted are read and run a few at a time."""

    task: SegmentationTask
    held: bool  # whether a part of the training split is held out
    sampled: dict[str, None] = field(default_factory=dict)  # What was said of samples, once each

    @property
    def name(self) -> str:
        """Of the data."""
        return self.task.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        return self.task.labels

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data, and of which splits only a sample of pixels was measured."""
        return (*self.task.notes, *self.sampled)

    @property
    def parts(self) -> dict[str, Pixels]:
        """What is predicted."""
        names = {"valid": "dev", "test": "test", "ood": "ood"}
        there = self.task.scenes.parts
        return {name: self.task.load(split) for name, split in names.items() if split in there}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all images and masks; what cannot be read or measured is an error here."""
        digest = hashlib.sha256("\0".join(self.labels).encode())
        for split in sorted(self.task.scenes.parts):
            pixels = np.zeros(len(self.labels), np.int64)  # Of each class.
            for image, mask in self.task.scenes.parts[split]:
                digest.update(np.ascontiguousarray(image).tobytes())
                digest.update(np.ascontiguousarray(mask, np.int16).tobytes())
                pixels += np.bincount(mask[mask != IGNORED], minlength=len(pixels))
            self._check_pixels(pixels, split)
        return digest.hexdigest()

    def _check_pixels(self, pixels: np.ndarray, split: str) -> None:
        if not pixels.any():
            raise InputError(
                f"{self.name}: no pixel of the {split} split has a class, all are void."
            )
        if split == "train" and np.count_nonzero(pixels) == 1:
            only = self.labels[int(pixels.argmax())]
            raise InputError(
                f"{self.name}: all pixels of the training masks are '{only}', or void: there is "
                f"nothing to learn. ({VOID} is void: where masks are 0 and {VOID}, write 0 and 1.)"
            )

    def windows(self, device: str) -> tuple[Images, Images | None]:
        """The training images on a device, all of them, and the held-out ones."""
        if torch.device(device).type == "cuda":
            torch.backends.cudnn.benchmark = True  # All batches are of one size.
        return _windows(self, device)

    def predict(self, model: nn.Module, part: Pixels) -> Predictions:
        """One row per pixel that has a class, with its image and whether it is near a border.

        Of more than 50 million scores, those of a seeded sample of pixels; ``notes`` then says so.
        """
        sample = sampled_pixels(model, part, self.task)
        if not sample.whole:
            self.sampled[told_sample(sample)] = None
        return Predictions.concatenate(sample.parts)

    def outside(self, model: nn.Module) -> None:
        """Every pixel has a class, or is ignored."""

    def scenes(self, model: nn.Module, temperature: float = 1.0) -> list[Scene]:
        """A few test images with their maps, for the report."""
        test = self.parts["test"]
        shown = [test[i] for i in range(min(_SHOWN, len(test)))]
        return [
            Scene.from_logits(
                example["pixel_values"],
                logits / temperature,
                example["labels"],
                f"test image {number}",
            )
            for number, (example, logits) in enumerate(
                zip(shown, pixel_logits(model, shown, self.task.collate), strict=True)
            )
        ]


class Segmentation:
    """A network by name, from scratch, on images that lie on the device."""

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Images and corruptions are there, as far as names tell, and the head is one layer."""
        if recipe.head_depth:
            raise InputError(
                "The head of a segmentation network is one layer: leave head_depth at 0, got "
                f"{recipe.head_depth}; head_width is the width of the U-Net."
            )
        if isinstance(build_method(recipe), InputMixup):
            raise InputError(
                "Void pixels cannot be mixed with others: 'input_mixup' takes no masks; take "
                "'feature_mixup'."
            )
        if recipe.data != SHAPES:
            find_scenes(recipe.data, directory)
        for name in recipe.shift:
            known_corruption(name, IMAGE, of="images")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> PreparedScenes:
        """Open the images of a recipe."""
        self.check(recipe, directory)
        held = build_method(recipe).needs_holdout
        state = data_state(recipe.data, "segmentation", directory)
        data = _prepare(recipe.data, directory, recipe.model, recipe.head_width, held, state)
        _ = data.fingerprint  # Every mask is read once before hours go into training.
        return data

    def build_model(self, recipe: Recipe, data: PreparedScenes) -> nn.Module:
        """The network, its weights drawn from the recipe's seed, channels last in memory."""
        channels = len(data.task.mean)
        model = build_segmenter(
            recipe.model, channels, len(data.labels), recipe.seed, recipe.head_width
        )
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def write_model(
        self, recipe: Recipe, data: PreparedScenes, model: Segmenter, folder: Path
    ) -> None:
        """See :func:`~calibrant.tasks.segmentation.segmenter.write_segmenter`."""
        about = {
            "model": recipe.model,
            "width": recipe.head_width,
            "labels": list(data.labels),
            "mean": data.task.mean.tolist(),
            "deviation": data.task.deviation.tolist(),
        }
        write_segmenter(model, folder, about)

    def shifted(
        self,
        recipe: Recipe,
        data: PreparedScenes,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, Pixels]:
        """The test images corrupted, under the same masks: ``jpeg-3`` and so on."""
        test = data.parts["test"].scenes
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return {
            name: Pixels(
                CorruptedScenes(test, known_corruption(name, IMAGE, of="images"), _SEED, device)
            )
            for name in recipe.shift
        }


@functools.lru_cache(maxsize=4)
def _prepare(
    name: str,
    directory: str | None,
    model: str,
    width: int,
    held: bool,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> PreparedScenes:
    task = SegmentationTask.open(name, directory, _SEED, model=model, width=width)
    return PreparedScenes(task, held)


@functools.lru_cache(maxsize=4)
def _windows(data: PreparedScenes, device: str) -> tuple[Images, Images | None]:
    images, masks = _stacked(data.task)
    rows: dict[str, list[int]] = {"train": list(range(len(images)))}
    if data.held:
        rows["train"], rows["held"] = carve(rows["train"], _SEED, data.name)
    normal: dict[str, Any] = {"mean": data.task.mean, "deviation": data.task.deviation}
    made = {part: Images(images[r], masks[r], device, **normal) for part, r in rows.items()}
    return made["train"], made.get("held")


def _stacked(task: SegmentationTask) -> tuple[np.ndarray, np.ndarray]:
    """The training images as one array; smaller ones are filled up, labelled −100."""
    examples = task.load("train")
    sizes = np.array([examples[i]["labels"].shape for i in range(len(examples))])
    shape = (len(examples), *sizes.max(axis=0).tolist())
    images = np.empty((*shape, len(task.mean)), np.uint8)
    images[:] = np.round(task.mean).astype(np.uint8)
    masks = np.full(shape, IGNORED, np.int16)
    for number, (height, width) in enumerate(sizes.tolist()):
        example = examples[number]
        images[number, :height, :width] = example["pixel_values"]
        masks[number, :height, :width] = example["labels"]
    return images, masks
