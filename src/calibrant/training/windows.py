"""Windows of word pieces on a device, and the plan of their batches: one shape per bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from calibrant.predictions import IGNORED

__all__ = ["LENGTHS", "BatchPlan", "Rows", "Windows", "bucket_of", "plan_batches"]

# Padded lengths, in word pieces. Half of all sentences have fewer than 16.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Which windows make which batch: ``order`` holds the bucket of every step, ``rows`` for each
    bucket the (steps, batch) window numbers in the order of their steps; −1 fills a short batch.
    """

    order: np.ndarray
    rows: dict[int, np.ndarray]

    def __len__(self) -> int:
        return len(self.order)


def bucket_of(lengths: np.ndarray) -> np.ndarray:
    """Return the padded length of each window.

    >>> bucket_of(np.array([3, 16, 17, 500]))
    array([ 16,  16,  24, 512])
    """
    return np.asarray(LENGTHS)[np.searchsorted(LENGTHS, lengths)]


def plan_batches(lengths: np.ndarray, batch: int, epochs: int, seed: int) -> BatchPlan:
    """Plan every window once per epoch, in batches of one padded length, batches in random order.

    >>> plan = plan_batches(np.array([5, 6, 7, 40]), batch=2, epochs=1, seed=0)
    >>> sorted(plan.order.tolist()), {k: v.shape for k, v in plan.rows.items()}
    ([16, 48], {16: (1, 2), 48: (1, 2)})
    """
    random = np.random.default_rng(seed)
    buckets = bucket_of(lengths)
    order: list[int] = []
    rows: dict[int, list[np.ndarray]] = {int(b): [] for b in np.unique(buckets)}
    for _ in range(epochs):
        epoch = list(_epoch(buckets, batch, random))
        for i in random.permutation(len(epoch)):
            bucket, members = epoch[i]
            order.append(bucket)
            rows[bucket].append(members)
    return BatchPlan(np.asarray(order), {b: np.stack(parts) for b, parts in rows.items() if parts})


def _epoch(
    buckets: np.ndarray, batch: int, random: np.random.Generator
) -> Iterator[tuple[int, np.ndarray]]:
    over = np.empty(0, np.int64)  # Windows that do not fill a batch move up a bucket.
    used = np.unique(buckets)
    for bucket in used:
        members = random.permutation(np.append(over, np.flatnonzero(buckets == bucket)))
        full = len(members) // batch * batch
        for part in members[:full].reshape(-1, batch):
            yield int(bucket), part
        over = members[full:]
    if len(over):
        yield int(used[-1]), np.append(over, np.full(batch - len(over), -1))


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
