"""Turn a token classifier's output into Predictions: one row per word, in text order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.scoring import Scorer, TorchScorer, length_batches

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["predict_runs", "predict_words", "score_words"]

_PIECES = 1 << 16  # Word pieces per forward pass.
# Ids and mask of some windows, and which of their pieces count: the logits of each model there.
_Forward = Callable[[np.ndarray, np.ndarray, np.ndarray], Sequence[np.ndarray]]


def predict_words(
    model: nn.Module, data: Any, label_names: Sequence[str], *, padding: int = 0
) -> Predictions:
    """Return :func:`score_words` of a torch model in evaluation mode, where it is."""
    scorer = TorchScorer(model, str(next(model.parameters()).device))
    return score_words(scorer, data, label_names, padding=padding)


def score_words(
    scorer: Scorer, data: Any, label_names: Sequence[str], *, padding: int = 0
) -> Predictions:
    """Return the logits at the first piece of every word (``calibrant.tasks.ner.subword_windows``).

    Windows of similar length are run together; the logits come back in float32. Groups:
    ``sentence`` and ``position``, the number of the word in it; ``unfit`` where ``data`` has it.
    Signals: ``pieces``, how many the word was cut into; a damaged word has many; and those that the
    model computes.
    """
    beside: list[dict[str, np.ndarray]] = []

    def forward(ids: np.ndarray, mask: np.ndarray, kept: np.ndarray) -> list[np.ndarray]:
        found = scorer.scored(input_ids=ids, attention_mask=mask)
        beside.append({name: column[kept] for name, column in found.signals.items()})
        return [found.logits[kept]]

    return _run(forward, data, label_names, padding, scorer.pieces, beside)[0]


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
    import torch

    def run(ids: np.ndarray, mask: np.ndarray, kept: np.ndarray) -> list[np.ndarray]:
        outputs = forward(
            input_ids=torch.as_tensor(ids, device=device),
            attention_mask=torch.as_tensor(mask, device=device),
        )
        chosen = torch.as_tensor(kept, device=device)
        return [output[chosen].float().cpu().numpy() for output in outputs]

    with torch.no_grad():
        return _run(run, data, label_names, padding, pieces)


def _run(
    forward: _Forward,
    data: Any,
    label_names: Sequence[str],
    padding: int,
    pieces: int,
    beside: Sequence[dict[str, np.ndarray]] = (),
) -> list[Predictions]:
    """Predict; ``forward`` may add the signals of each batch to ``beside``."""
    logits: list[Sequence[np.ndarray]] = []
    rows: list[np.ndarray] = []
    for part in length_batches(data.lengths, pieces):
        lengths = data.lengths[part]
        ids, labels = data.padded(part, int(lengths.max()), padding)
        place = np.arange(ids.shape[1])
        kept = labels != IGNORED
        logits.append(forward(ids, (place < lengths[:, None]).astype(np.int64), kept))
        rows.append((data.starts[part][:, None] + place)[kept])
    place = np.concatenate(rows)
    owner = np.repeat(data.sentences, data.lengths)[place]
    position = data.words[place]
    order = np.lexsort((position, owner))
    groups = {"sentence": owner[order], "position": position[order]}
    if getattr(data, "unfit", None) is not None:
        groups["unfit"] = data.unfit[place][order]
    signals = {"pieces": data.piece_counts()[place][order].astype(np.float32)}
    for name in beside[0] if beside else ():
        signals[name] = np.concatenate([part[name] for part in beside])[order]
    return [
        Predictions.from_logits(
            np.concatenate(run)[order],
            data.labels[place][order],
            label_names=label_names,
            groups=groups,
            signals=signals,
        )
        for run in zip(*logits, strict=True)
    ]
