"""Image classification as a task: images of one size, normalised by those of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.extras import require
from calibrant.tasks.image.pictures import DIGITS, Pictures, load_pictures
from calibrant.tasks.reading.splits import part_of

__all__ = ["ImageTask"]


class ImageTask:
    """Images as tensors (channels, height, width) of mean 0 and deviation 1 over training."""

    embedded = DIGITS

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures
        self.name, self.labels, self.notes = pictures.name, pictures.labels, pictures.notes
        train = pictures.images["train"]
        self.mean = train.mean((0, 1, 2), dtype=np.float64)
        # A channel that is the same everywhere is left at zero.
        self.deviation = np.maximum(train.std((0, 1, 2), dtype=np.float64), 1e-3)

    @classmethod
    def open(
        cls, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> ImageTask:
        """The task on images that :func:`~calibrant.tasks.image.pictures.load_pictures` finds."""
        return cls(load_pictures(data, directory, seed, **options))

    @classmethod
    def tiny(cls, seed: int = 0) -> ImageTask:
        """The task on 80 + 20 + 20 noisy images of 8×8 with a bar that stands, or lies."""
        random = np.random.default_rng(seed)
        images, classes = {}, {}
        for split, size in (("train", 80), ("dev", 20), ("test", 20), ("ood", 20)):
            images[split] = random.integers(0, 160, (size, 8, 8, 1), np.uint8)
            classes[split] = random.integers(0, 2, size)
            for image, lies in zip(images[split], classes[split], strict=True):
                (image if lies else image.swapaxes(0, 1))[random.integers(8)] += 95
        return cls(Pictures("bars", images, classes, ("standing", "lying")))

    def load(self, split: str) -> list[dict[str, Any]]:
        """The images of a split, as they are."""
        images = part_of(self.pictures.images, split)
        pairs = zip(images, self.pictures.classes[split].tolist(), strict=True)
        return [{"pixel_values": image, "labels": label} for image, label in pairs]

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Normalised images and their classes."""
        torch = require("torch", "torch", "A batch of tensors")
        pixels = np.stack([example["pixel_values"] for example in examples])
        normal = ((pixels - self.mean) / self.deviation).astype(np.float32)
        return {
            "pixel_values": torch.as_tensor(normal.transpose(0, 3, 1, 2).copy()),
            "labels": torch.as_tensor(np.array([e["labels"] for e in examples], np.int64)),
        }

    def build_model(self, seed: int = 0) -> Any:
        """A small convolutional network, drawn from ``seed`` alone."""
        torch = require("torch", "torch", "A small network")
        from calibrant.tasks.image.small_convnet import SmallConvNet

        channels = self.pictures.images["train"].shape[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return SmallConvNet(channels, len(self.labels))
