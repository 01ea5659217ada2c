"""Compute the logits of a trained segmentation network, image by image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.training.head_hook import logits_of

__all__ = ["pixel_logits"]

_PIXELS = 1 << 18  # Of images that run together.


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
