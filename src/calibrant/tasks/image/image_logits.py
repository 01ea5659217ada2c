"""Compute the logits of a trained classifier of images, in the order of the data."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from calibrant.training.eager_mode import as_written
from calibrant.training.head_hook import logits_of
from calibrant.training.images import Images

__all__ = ["image_logits"]

_VALUES = 1 << 22  # Values of pixels per forward pass.


@torch.no_grad()
def image_logits(model: nn.Module, images: Images) -> np.ndarray:
    """Return float32 logits (images, classes)."""
    size = max(1, _VALUES // images.pixels[0].numel())
    found = []
    with as_written():
        for start in range(0, len(images), size):
            rows = torch.arange(start, min(start + size, len(images)), device=images.device)
            pixels = images.batch(rows, images.longest)["pixel_values"]
            found.append(logits_of(model(pixel_values=pixels)).float().cpu())
    return torch.cat(found).numpy()
