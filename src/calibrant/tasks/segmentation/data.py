"""Images with a class for each pixel, normalised by those of training, and models for them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.metrics.segmentation_example import Scene
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.image.picture_arrays import channel_moments
from calibrant.tasks.reading.fingerprint import data_state
from calibrant.tasks.reading.splits import carve, part_of
from calibrant.tasks.segmentation.mask_folder import VOID
from calibrant.tasks.segmentation.pixel_predictions import (
    describe_sample,
    pixel_logits,
    sampled_pixels,
)
from calibrant.tasks.segmentation.scenes import Example, Scenes, load_scenes
from calibrant.tasks.segmentation.segmenter import build_segmenter
from calibrant.training.images import Images, parse_augmentation

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["Pixels", "SegmentationData", "prepare"]

_SEED = 0  # For the data and the held-out part: the same in every run.
_MEASURED = 200  # Training images that mean and deviation are taken from, at most.
_SHOWN = 4  # Test images in the report.


class Pixels(Sequence[dict[str, Any]]):
    """The scenes of a split as examples; those of a folder are read one by one."""

    def __init__(self, scenes: Sequence[Example]) -> None:
        self.scenes = scenes

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, number: Any) -> Any:
        """Return one example: its image as bytes, and its mask."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        image, mask = self.scenes[number]
        return {"pixel_values": image, "labels": mask}


class SegmentationData:
    """Images and masks by split. Images that are predicted are read and run a few at a time.

    A batch has tensors (channels, height, width) of mean 0 and deviation 1 over training. Logits of
    the models have the classes last, (images, height, width, K), and labels are (images, height,
    width) with −100 where a pixel is void: what every loss takes.

    >>> from calibrant.tasks import open_task
    >>> data = open_task("segmentation", tiny=True)
    >>> batch = data.collate(data.load("train")[:2])
    >>> {name: tuple(values.shape) for name, values in batch.items()}
    {'pixel_values': (2, 3, 24, 24), 'labels': (2, 24, 24)}
    """

    def __init__(
        self,
        scenes: Scenes,
        model: str = "unet",
        width: int = 16,
        moments: tuple[np.ndarray, np.ndarray] | None = None,
        *,
        held: bool = False,
        augment: frozenset[str] = frozenset(),
    ) -> None:
        """Load parts when they are needed.

        ``moments`` are mean and deviation, by default those of the training split. With ``held`` a
        part of that split is held out. Training images are changed by ``augment``.
        """
        self.augment = augment
        self.scenes, self.model, self.width, self.held = scenes, model, width, held
        self.name, self.labels = scenes.name, scenes.labels
        self.mean, self.deviation = moments or _moments(scenes.parts["train"])
        self._sampled: dict[str, None] = {}  # The notes about samples, once each.

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data, and which splits were measured on a sample of pixels."""
        return (*self.scenes.notes, *self._sampled)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.scenes.parts)

    @property
    def parts(self) -> dict[str, Pixels]:
        """What is predicted."""
        names = {"valid": "dev", "test": "test", "ood": "ood"}
        return {name: self.load(split) for name, split in names.items() if split in self.splits}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all images and masks; raises an error for files that cannot be read."""
        digest = hashlib.sha256("\0".join(self.labels).encode())
        for split in sorted(self.splits):
            pixels = np.zeros(len(self.labels), np.int64)  # Of each class.
            for image, mask in self.scenes.parts[split]:
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

    def load(self, split: str) -> Pixels:
        """Return the scenes of a split, as they are."""
        return Pixels(part_of(self.scenes.parts, split))

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return normalised images and their masks; smaller ones are filled up, labelled −100."""
        size = tuple(np.max([e["labels"].shape for e in examples], axis=0))
        pixels = np.zeros((len(examples), *size, len(self.mean)), np.float32)
        labels = np.full((len(examples), *size), IGNORED, np.int64)
        for place, example in enumerate(examples):
            height, width = example["labels"].shape
            normal = (example["pixel_values"] - self.mean) / self.deviation
            pixels[place, :height, :width] = normal
            labels[place, :height, :width] = example["labels"]
        return {
            "pixel_values": torch.as_tensor(pixels.transpose(0, 3, 1, 2).copy()),
            "labels": torch.as_tensor(labels),
        }

    def build_model(self, seed: int = 0) -> nn.Module:
        """Build the network, drawn from ``seed`` alone."""
        return build_segmenter(self.model, len(self.mean), len(self.labels), seed, self.width)

    def windows(self, device: str) -> tuple[Images, Images | None]:
        """Put the training images on a device, all of them, and the held-out ones."""
        if torch.device(device).type == "cuda":
            torch.backends.cudnn.benchmark = True  # All batches are of one size.
        return _windows(self, device)

    def predict(self, model: nn.Module, part: Pixels) -> Predictions:
        """Predict one row per pixel that has a class, with its image and whether near a border.

        Above 50 million scores a seeded sample of pixels is predicted, and ``notes`` says so.
        """
        sample = sampled_pixels(model, part, self)
        if not sample.whole:
            self._sampled[describe_sample(sample)] = None
        return Predictions.concatenate(sample.parts)

    def outside(self, model: nn.Module) -> None:
        """Return None: every pixel has a class, or is ignored."""

    def example_scenes(self, model: nn.Module, temperature: float = 1.0) -> list[Scene]:
        """Return a few test images with their maps, for the report."""
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
                zip(shown, pixel_logits(model, shown, self.collate), strict=True)
            )
        ]


def prepare(recipe: Recipe, directory: str | None = None) -> SegmentationData:
    """Open the images of a recipe."""
    held = create(recipe.method, **recipe.method_options).needs_holdout
    state = data_state(recipe.data, "segmentation", directory)
    augment = parse_augmentation(recipe.augment)
    data = _prepare(recipe.data, directory, recipe.model, recipe.head_width, held, augment, state)
    _ = data.fingerprint  # Read every mask once before hours of training.
    return data


@functools.lru_cache(maxsize=4)
def _prepare(
    name: str,
    directory: str | None,
    model: str,
    width: int,
    held: bool,
    augment: frozenset[str],
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> SegmentationData:
    scenes = load_scenes(name, directory, _SEED)
    return SegmentationData(scenes, model, width, held=held, augment=augment)


@functools.lru_cache(maxsize=4)
def _windows(data: SegmentationData, device: str) -> tuple[Images, Images | None]:
    images, masks = _stacked(data)
    rows: dict[str, list[int]] = {"train": list(range(len(images)))}
    if data.held:
        rows["train"], rows["held"] = carve(rows["train"], _SEED, data.name)
    normal: dict[str, Any] = {"mean": data.mean, "deviation": data.deviation}
    changed = {"train": data.augment}
    made = {
        part: Images(images[r], masks[r], device, **normal, augment=changed.get(part, frozenset()))
        for part, r in rows.items()
    }
    return made["train"], made.get("held")


def _stacked(data: SegmentationData) -> tuple[np.ndarray, np.ndarray]:
    """Stack the training images; smaller ones are filled up, labelled −100."""
    examples = data.load("train")
    sizes = np.array([examples[i]["labels"].shape for i in range(len(examples))])
    shape = (len(examples), *sizes.max(axis=0).tolist())
    images = np.empty((*shape, len(data.mean)), np.uint8)
    images[:] = np.round(data.mean).astype(np.uint8)
    masks = np.full(shape, IGNORED, np.int16)
    for number, (height, width) in enumerate(sizes.tolist()):
        example = examples[number]
        images[number, :height, :width] = example["pixel_values"]
        masks[number, :height, :width] = example["labels"]
    return images, masks


def _moments(scenes: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the bytes of each channel, over at most 200 images."""
    chosen = np.unique(np.linspace(0, len(scenes) - 1, min(len(scenes), _MEASURED)).astype(int))
    return channel_moments(scenes[number][0] for number in chosen.tolist())
