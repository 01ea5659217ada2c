"""Texts in word pieces, end to end in flat arrays, with one class each; and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.training.head_hook import logits_of
from calibrant.training.windows import bucket_of

__all__ = ["EncodedTexts", "encode_texts", "text_logits"]

_PIECES = 1 << 16  # Word pieces per forward pass.


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """``ids`` of all texts, special tokens included; ``starts`` has one entry more than texts.

    ``labels`` is the class of each text, or −100; ``shortened`` says how many were too long.
    """

    ids: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    shortened: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each text."""
        return np.diff(self.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one text, named as transformers' Trainer expects."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        ids = self.ids[self.starts[row] : self.starts[row + 1]]
        return {"input_ids": ids, "labels": int(self.labels[row])}

    def padded(self, rows: np.ndarray, length: int, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ``ids`` of some texts, (rows, length), and their classes, (rows,)."""
        ids = np.full((len(rows), length), padding, np.int64)
        for i, row in enumerate(rows):
            part = self.ids[self.starts[row] : self.starts[row + 1]]
            ids[i, : len(part)] = part
        return ids, self.labels[rows].astype(np.int64)


def encode_texts(
    texts: Sequence[str], classes: Sequence[int], tokenizer: Any, max_length: int = 512
) -> EncodedTexts:
    """Encode whole texts; a text that is too long keeps its beginning and its last piece."""
    encoded = tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
    # The last piece closes a text, so it stays.
    short = [i if len(i) <= max_length else [*i[: max_length - 1], i[-1]] for i in encoded]
    flat = [np.empty(0, np.int32), *(np.asarray(ids, np.int32) for ids in short)]
    return EncodedTexts(
        np.concatenate(flat),
        np.asarray(classes, np.int64),
        np.cumsum([0, *(len(ids) for ids in short)]),
        sum(len(ids) > max_length for ids in encoded),
    )


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
