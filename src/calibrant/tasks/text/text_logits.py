"""Compute the logits of a trained classifier of texts, in the order of the data."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from calibrant.tasks.text.encoded_texts import EncodedTexts
from calibrant.training.buckets import bucket_of
from calibrant.training.head_hook import logits_of

__all__ = ["text_logits"]

_PIECES = 1 << 16  # Word pieces per forward pass.


@torch.no_grad()
def text_logits(model: nn.Module, data: EncodedTexts, padding: int = 0) -> np.ndarray:
    """Return float32 logits (texts, classes).

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
