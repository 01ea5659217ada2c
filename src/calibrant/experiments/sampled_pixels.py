"""What a network says of the pixels of many images, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from calibrant.errors import InputError
from calibrant.metrics.sample import Sample
from calibrant.metrics.segmentation_example import pixel_predictions
from calibrant.predictions import Predictions
from calibrant.tasks.segmentation.segmentation_task import Pixels, SegmentationTask
from calibrant.training.pixel_logits import pixel_logits

__all__ = ["sampled_pixels", "told_sample"]

_SEED = 0
_SCORES = 50_000_000  # Kept of a split: 200 MB. Of more, a sample of pixels is measured.


def sampled_pixels(model: nn.Module, part: Pixels, task: SegmentationTask) -> Sample[Predictions]:
    """The predictions of each image, or of a seeded sample of pixels where there are too many."""
    sample: Sample[Predictions] = Sample(max(1, _SCORES // len(task.labels)), _SEED)
    masks: deque[np.ndarray] = deque()  # Of images that run now: each file is read once.

    def collate(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        masks.extend(example["labels"] for example in examples)
        return task.collate(examples)

    for number, logits in enumerate(pixel_logits(model, part, collate)):
        labels = masks.popleft()
        sample.add(pixel_predictions(logits, labels, number, label_names=task.labels))
    if not sample.held:
        raise InputError(
            f"{task.name}: no pixel of {len(part):,} masks to measure on has a class, all are void."
        )
    return sample


def told_sample(sample: Sample[Predictions]) -> str:
    """What is to be said of numbers that come from a sample."""
    said = f"{sample.held:,} of {sample.seen:,} labelled pixels"
    return f"Measured on a seeded sample: {said} of a split."
