"""Semantic segmentation as a task: a class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.extras import require
from calibrant.predictions import IGNORED
from calibrant.tasks.reading.splits import part_of
from calibrant.tasks.segmentation.scenes import SHAPES, Example, Scenes, load_scenes
from calibrant.tasks.segmentation.shapes import CLASSES, generate_shapes

__all__ = ["Pixels", "SegmentationTask"]

_MEASURED = 200  # Training images that mean and deviation are taken from, at most.


class Pixels(Sequence[dict[str, Any]]):
    """The scenes of a split as examples; those of a folder are read one by one."""

    def __init__(self, scenes: Sequence[Example]) -> None:
        self.scenes = scenes

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, number: Any) -> Any:
        """One example: its image as bytes, and its mask."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        image, mask = self.scenes[number]
        return {"pixel_values": image, "labels": mask}


class SegmentationTask:
    """Images as tensors (channels, height, width) of mean 0 and deviation 1 over training.

    Logits of its models have the classes last, (images, height, width, K), and labels are (images,
    height, width) with −100 where a pixel is void: what every loss takes.

    >>> task = SegmentationTask.tiny()
    >>> batch = task.collate(task.load("train")[:2])
    >>> {name: tuple(values.shape) for name, values in batch.items()}
    {'pixel_values': (2, 3, 24, 24), 'labels': (2, 24, 24)}
    """

    embedded = SHAPES

    def __init__(
        self,
        scenes: Scenes,
        model: str = "unet",
        width: int = 16,
        moments: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """``moments`` are mean and deviation, by default those of the training split."""
        self.scenes, self.model, self.width = scenes, model, width
        self.name, self.labels, self.notes = scenes.name, scenes.labels, scenes.notes
        self.mean, self.deviation = moments or _moments(scenes.parts["train"])

    @classmethod
    def open(
        cls,
        data: str,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        model: str = "unet",
        width: int = 16,
        **options: Any,
    ) -> SegmentationTask:
        """The task on what :func:`~calibrant.tasks.segmentation.scenes.load_scenes` finds."""
        return cls(load_scenes(data, directory, seed, **options), model, width)

    @classmethod
    def tiny(cls, seed: int = 0, **options: Any) -> SegmentationTask:
        """The task on 40 + 12 + 12 + 12 scenes of 24×24 pixels."""
        parts = generate_shapes(seed, side=24, train=40, dev=12, test=12, ood=12)
        return cls(Scenes(SHAPES, parts, CLASSES), **{"width": 8, **options})

    def load(self, split: str) -> Pixels:
        """The scenes of a split, as they are."""
        return Pixels(part_of(self.scenes.parts, split))

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Normalised images and their masks; smaller ones are filled up, labelled −100."""
        torch = require("torch", "torch", "A batch of tensors")
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

    def build_model(self, seed: int = 0) -> Any:
        """The network of the task's name, drawn from ``seed`` alone."""
        require("torch", "torch", "A network")
        from calibrant.tasks.segmentation.segmenter import build_segmenter

        return build_segmenter(self.model, len(self.mean), len(self.labels), seed, self.width)


def _moments(scenes: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of the bytes of each channel, over at most 200 images."""
    chosen = np.unique(np.linspace(0, len(scenes) - 1, min(len(scenes), _MEASURED)).astype(int))
    count, total, squares = 0, 0.0, 0.0
    for number in chosen.tolist():
        image = scenes[number][0]
        values = image.reshape(-1, image.shape[-1]).astype(np.float64)
        count, total = count + len(values), total + values.sum(0)
        squares = squares + np.square(values).sum(0)
    mean = np.asarray(total / count)
    variance = np.maximum(np.asarray(squares / count) - mean**2, 0)
    # A channel that is the same everywhere is left at zero.
    return mean, np.maximum(np.sqrt(variance), 1e-3)
