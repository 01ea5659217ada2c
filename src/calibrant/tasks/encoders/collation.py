"""Encoded examples to one padded batch of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.extras import require
from calibrant.predictions import IGNORED

__all__ = ["pad"]


def pad(
    examples: Sequence[Mapping[str, Any]], padding: int, length: int | None = None
) -> dict[str, Any]:
    """``input_ids``, ``attention_mask`` and ``labels`` of one length; filled-up labels are −100.

    It is that of the longest example, or ``length``.

    >>> batch = pad([{"input_ids": [5, 6], "labels": 1}, {"input_ids": [7], "labels": 0}], 9)
    >>> {name: values.tolist() for name, values in batch.items()}
    {'input_ids': [[5, 6], [7, 9]], 'attention_mask': [[1, 1], [1, 0]], 'labels': [1, 0]}
    """
    torch = require("torch", "torch", "A batch of tensors")
    longest = length or max((len(example["input_ids"]) for example in examples), default=0)

    def filled(rows: Sequence[Any], filler: int) -> Any:
        table = np.full((len(rows), longest), filler, np.int64)
        for place, row in zip(table, rows, strict=True):
            place[: len(row)] = row
        return torch.as_tensor(table)

    labels = [example["labels"] for example in examples]
    whole = all(np.ndim(label) == 0 for label in labels)
    return {
        "input_ids": filled([example["input_ids"] for example in examples], padding),
        "attention_mask": filled([np.ones(len(e["input_ids"])) for e in examples], 0),
        "labels": torch.as_tensor(np.array(labels, np.int64)) if whole else filled(labels, IGNORED),
    }
