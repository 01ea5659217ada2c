"""Keep the word pieces that occur: the rest of an embedding table is never read, only decayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.tasks.ner.subword_windows import Pieces

_SPECIAL = 8  # Ids below it belong to special pieces.

__all__ = ["occurring", "renumber", "trim_embeddings"]


def occurring(parts: Sequence[Pieces], padding: int) -> np.ndarray:
    """The sorted ids of every piece in ``parts``, and the padding.

    A padding among the first ids keeps its number, and so do those before it: relatives of RoBERTa
    count positions from there on.
    """
    first = np.arange(padding + 1) if padding < _SPECIAL else [padding]
    return np.unique(np.concatenate([first, *(part.ids for part in parts)]))


def renumber(part: Pieces, kept: np.ndarray) -> Pieces:
    """The same windows, with the place in ``kept`` for each id."""
    return replace(part, ids=np.searchsorted(kept, part.ids).astype(part.ids.dtype))


def trim_embeddings(model: nn.Module, kept: np.ndarray) -> nn.Module:
    """Leave the rows of ``kept`` in the model's table of word pieces; in place.

    Training is the same for whatever consists of these pieces: no gradient reaches other rows, so
    neither the clipped norm nor a moment of AdamW changes. It moves less memory.
    """
    whole: Any = model.get_input_embeddings()  # type: ignore[operator]
    rows = whole.weight.detach()[torch.as_tensor(kept)]
    padding = whole.padding_idx
    place = None if padding is None else int(np.searchsorted(kept, padding))
    trimmed = nn.Embedding(len(rows), rows.shape[1], place, _weight=rows.clone())
    model.set_input_embeddings(trimmed)  # type: ignore[operator]
    return model
