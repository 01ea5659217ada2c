"""Predict the pixels of many images with a trained network, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.metrics.sample import Sample
from calibrant.metrics.segmentation_example import pixel_predictions
from calibrant.predictions import Predictions
from calibrant.training.head_hook import logits_of

if TYPE_CHECKING:
    from calibrant.tasks.segmentation.data import Pixels, SegmentationData

__all__ = ["describe_sample", "pixel_logits", "sampled_pixels"]

_SEED = 0
_PIXELS = 1 << 18  # Of images that run together.
MOST_SCORES = 50_000_000  # Per split: 200 MB. Above it a sample of pixels is measured.


def sampled_pixels(model: nn.Module, part: Pixels, data: SegmentationData) -> Sample[Predictions]:
    """Predict the pixels of each image; above :data:`MOST_SCORES`, a seeded sample of them."""
    sample: Sample[Predictions] = Sample(max(1, MOST_SCORES // len(data.labels)), _SEED)
    masks: deque[np.ndarray] = deque()  # Of images that run now: each file is read once.

    def collate(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        masks.extend(example["labels"] for example in examples)
        return data.collate(examples)

    for number, logits in enumerate(pixel_logits(model, part, collate)):
        labels = masks.popleft()
        sample.add(pixel_predictions(logits, labels, number, label_names=data.labels))
    if not sample.held:
        raise InputError(
            f"{data.name}: no pixel of {len(part):,} masks to measure on has a class, all are void."
        )
    return sample


def describe_sample(sample: Sample[Predictions]) -> str:
    """Describe the sample that the numbers come from."""
    shares = f"{sample.held:,} of {sample.seen:,} labelled pixels"
    return f"Measured on a seeded sample: {shares} of a split."


@torch.no_grad()
def pixel_logits(
    model: nn.Module,
    examples: Sequence[dict[str, Any]],
    collate: Callable[[Sequence[dict[str, Any]]], dict[str, Tensor]],
) -> Iterator[np.ndarray]:
    """Yield the float32 logits (height, width, K) of each image in turn.

    Only images that follow each other and have one size run together, so none is filled up, and no
    more than a few images are held at once.
    """
    device = next(model.parameters()).device
    waiting: list[dict[str, Any]] = []
    for number in range(len(examples)):
        example = examples[number]
        size = example["labels"].shape
        full = (len(waiting) + 1) * np.prod(size) > _PIXELS
        if waiting and (full or waiting[0]["labels"].shape != size):
            yield from _run(model, collate(waiting), device)
            waiting = []
        waiting.append(example)
    if waiting:
        yield from _run(model, collate(waiting), device)


def _run(model: nn.Module, batch: dict[str, Tensor], device: torch.device) -> Iterator[np.ndarray]:
    inputs = {name: values.to(device) for name, values in batch.items() if name != "labels"}
    with _untuned():
        logits = logits_of(model(**inputs)).float().cpu().numpy()
    yield from logits


@contextmanager
def _untuned() -> Iterator[None]:
    """Disable the search for the fastest convolutions, which pays only if all sizes are equal."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
