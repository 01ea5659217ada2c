"""Windows of word pieces on a device, ready to be cut into batches without the host."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from calibrant.predictions import IGNORED
from calibrant.training.buckets import LENGTHS, BatchPlan, plan_batches

__all__ = ["Rows", "Windows"]


class Rows(Protocol):
    """Examples on a device, from which a loop takes batches without the host."""

    device: torch.device
    longest: int
    """The largest length of a batch."""

    def __len__(self) -> int: ...

    def plan(self, batch: int, epochs: int, seed: int) -> BatchPlan:
        """Plan which rows make which batch; plans of all seeds have the same shapes."""

    def batch(self, rows: Tensor, length: int) -> dict[str, Tensor]:
        """Return the model's inputs and ``labels`` of some rows, in a batch of this size."""


class Windows:
    """Windows of word pieces on a device, padded once; any number of loops can share them.

    ``data`` has flat ``ids``, the ``lengths`` of its windows and ``labels`` of each piece (see
    ``calibrant.tasks.ner.subword_windows``) or of each window
    (``calibrant.tasks.text.encoded_texts``). A last, empty row fills batches that come out short.
    """

    def __init__(self, data: Any, device: str | torch.device, padding: int = 0) -> None:
        self.lengths: np.ndarray = data.lengths
        self.longest = next(length for length in LENGTHS if length >= self.lengths.max())
        ids, labels = data.padded(np.arange(len(data)), self.longest, padding)
        self.ids = _with_row(ids, padding, torch.int32, device)
        self.labels = _with_row(labels, IGNORED, torch.int16, device)
        self.sizes = _with_row(self.lengths, 1, torch.int32, device)
        self.device = self.ids.device

    def __len__(self) -> int:
        return len(self.lengths)

    def plan(self, batch: int, epochs: int, seed: int) -> BatchPlan:
        """Plan batches of windows of similar length."""
        return plan_batches(self.lengths, batch, epochs, seed)

    def batch(self, rows: Tensor, length: int) -> dict[str, Tensor]:
        """Return ids, mask and labels of some rows, cut to ``length``; row −1 is empty."""
        places = torch.arange(length, device=self.device)
        labels = self.labels[rows]
        return {
            "input_ids": self.ids[rows, :length].long(),
            "attention_mask": (places < self.sizes[rows][:, None]).long(),
            "labels": (labels[:, :length] if labels.ndim > 1 else labels).long(),
        }


def _with_row(
    values: np.ndarray, filler: int, dtype: torch.dtype, device: str | torch.device
) -> Tensor:
    last = np.full((1, *values.shape[1:]), filler, values.dtype)
    return torch.as_tensor(np.concatenate([values, last]), dtype=dtype, device=device)
