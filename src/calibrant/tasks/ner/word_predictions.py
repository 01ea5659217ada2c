"""Turn a token classifier's output into Predictions: one row per word, in text order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.predictions import IGNORED, Predictions
from calibrant.training.windows import bucket_of

__all__ = ["predict_runs", "predict_words"]

_PIECES = 1 << 16  # Word pieces per forward pass.


def predict_words(
    model: nn.Module, data: Any, label_names: Sequence[str], *, padding: int = 0
) -> Predictions:
    """Return the logits at the first piece of every word (``calibrant.tasks.ner.subword_windows``).

    Windows of similar length are run together; the logits come back in float32. Groups:
    ``sentence`` and ``position``, the number of the word in it; ``unfit`` where ``data`` has it.
    """
    device = next(model.parameters()).device

    def forward(**inputs: Tensor) -> list[Tensor]:
        return [model(**inputs).logits]

    return predict_runs(forward, device, data, label_names, padding=padding)[0]


@torch.no_grad()
def predict_runs(
    forward: Callable[..., Sequence[Tensor]],
    device: torch.device,
    data: Any,
    label_names: Sequence[str],
    *,
    padding: int = 0,
    pieces: int = _PIECES,
) -> list[Predictions]:
    """Predict with several models that run together: ``forward`` returns the logits of each."""
    buckets = bucket_of(data.lengths)
    logits: list[list[np.ndarray]] = []
    rows: list[np.ndarray] = []
    for length in np.unique(buckets):
        members = np.flatnonzero(buckets == length)
        for part in np.array_split(members, -(-len(members) * int(length) // pieces)):
            ids, labels = data.padded(part, int(length), padding)
            mask = np.arange(length) < data.lengths[part][:, None]
            kept = labels != IGNORED
            outputs = forward(
                input_ids=torch.as_tensor(ids, device=device),
                attention_mask=torch.as_tensor(mask.astype(np.int64), device=device),
            )
            chosen = torch.as_tensor(kept, device=device)
            logits.append([output[chosen].float().cpu().numpy() for output in outputs])
            rows.append((data.starts[part][:, None] + np.arange(length))[kept])
    place = np.concatenate(rows)
    owner = np.repeat(data.sentences, data.lengths)[place]
    position = data.words[place]
    order = np.lexsort((position, owner))
    groups = {"sentence": owner[order], "position": position[order]}
    if getattr(data, "unfit", None) is not None:
        groups["unfit"] = data.unfit[place][order]
    return [
        Predictions.from_logits(
            np.concatenate(run)[order],
            data.labels[place][order],
            label_names=label_names,
            groups=groups,
        )
        for run in zip(*logits, strict=True)
    ]
