"""Compute the logits of a trained text or image classifier, in the order of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.training.buckets import bucket_of
from calibrant.training.eager_mode import as_written
from calibrant.training.head_hook import logits_of
from calibrant.training.images import Images

__all__ = ["image_logits", "text_logits"]

_PIECES = 1 << 16  # Word pieces per forward pass.
_VALUES = 1 << 22  # Values of pixels per forward pass.


@torch.no_grad()
def text_logits(model: nn.Module, data: Any, padding: int = 0) -> np.ndarray:
    """Return float32 logits (texts, classes) of ``calibrant.tasks.text.encoded_texts``.

    Texts of similar length are run together.
    """
    device = next(model.parameters()).device
    buckets = bucket_of(data.lengths)
    places, found = [], []
    for length in np.unique(buckets):
        members = np.flatnonzero(buckets == length)
        for rows in np.array_split(members, -(-len(members) * int(length) // _PIECES)):
            ids, _ = data.padded(rows, int(length), padding)
            mask = np.arange(length) < data.lengths[rows][:, None]
            output = model(
                input_ids=torch.as_tensor(ids, device=device),
                attention_mask=torch.as_tensor(mask.astype(np.int64), device=device),
            )
            found.append(logits_of(output).float().cpu().numpy())
            places.append(rows)
    return np.concatenate(found)[np.argsort(np.concatenate(places))]


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
