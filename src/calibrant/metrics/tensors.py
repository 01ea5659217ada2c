"""The pass over the scores in torch, on their device; only the sums come back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibrant.metrics.bins import Bins
from calibrant.metrics.state import CalibrationState
from calibrant.predictions import Predictions

__all__ = ["add_tensors", "widest"]

_CHUNK = 1 << 22  # Scores per chunk: 32 MB in float64, enough to fill a GPU.


def widest(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on devices without float64 (Apple's)."""
    return torch.float32 if device.type == "mps" else torch.float64


def add_tensors(
    state: CalibrationState, p: Predictions, block: np.ndarray | None, chunk: int | None = None
) -> None:
    """Add all rows to the sums of their blocks, in place; the caller handles n and correct."""
    device = p.scores.device
    names = [name for name in state.SUMS if getattr(state, name).size]
    sums = {name: _zeros(getattr(state, name), device) for name in names}
    where = None if block is None else torch.as_tensor(block, device=device)
    rows = max(1, (chunk or _CHUNK) // p.classes)
    for start in range(0, len(p), rows):
        part = slice(start, start + rows)
        labels = p.labels[part]
        blocks = torch.zeros_like(labels) if where is None else where[part]
        ones = torch.ones_like(labels)
        if p.weights is not None:
            ones = torch.as_tensor(p.weights[part]).to(device, widest(device))
        _add_rows(sums, state, p.scores[part], labels, p.kind == "logits", blocks, ones)
    for name, total in sums.items():
        getattr(state, name)[...] += total.cpu().numpy().reshape(getattr(state, name).shape)


def _zeros(table: np.ndarray, device: torch.device) -> Tensor:
    dtype = torch.int64 if table.dtype.kind == "i" else widest(device)
    return torch.zeros(table.size, dtype=dtype, device=device)


def _add_rows(
    sums: dict[str, Tensor],
    state: CalibrationState,
    scores: Tensor,
    labels: Tensor,
    logits: bool,
    block: Tensor,
    ones: Tensor,
) -> None:
    """Add rows as in accumulate.py, by scatter-additions; ``ones`` are the sample weights."""
    bins, classes = state.bins, state.classes
    probabilities, compared, nll = _probabilities_and_nll(scores, labels, logits)
    predicted = scores.argmax(dim=1)
    confidence = _pick(probabilities, predicted)
    correct = (predicted == labels) * ones
    top = confidence * ones
    brier = probabilities.square().sum(dim=1) - 2 * _pick(probabilities, labels) + 1

    sums["nll"].index_add_(0, block, nll * ones)
    sums["brier"].index_add_(0, block, brier * ones)
    cell = block * bins.count + _index(bins, _pick(compared, predicted))
    sums["top_count"].index_add_(0, cell, ones)
    sums["top_confidence"].index_add_(0, cell, top)
    sums["top_correct"].index_add_(0, cell, correct)
    sums["label_count"].index_add_(0, block * classes + labels, ones)
    cell = block * classes + predicted
    sums["predicted_count"].index_add_(0, cell, ones)
    sums["predicted_confidence"].index_add_(0, cell, top)
    sums["predicted_correct"].index_add_(0, cell, correct)
    if state.classwise:
        row = block[:, None] * classes + torch.arange(classes, device=scores.device)
        cells = row * bins.count + _index(bins, compared)
        flat = cells.reshape(-1)
        sums["class_count"].index_add_(0, flat, ones.repeat_interleave(classes))
        each = probabilities * ones[:, None]
        sums["class_confidence"].index_add_(0, flat, each.reshape(-1))
        sums["class_correct"].index_add_(0, _pick(cells, labels), ones)


def _probabilities_and_nll(
    scores: Tensor, labels: Tensor, logits: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return p in the widest type, p in the type compared with the edges, and −log p_y."""
    wide = scores.to(widest(scores.device))
    if logits:
        shifted = wide - wide.amax(dim=1, keepdim=True)
        exponentials = shifted.exp()
        sums = exponentials.sum(dim=1, keepdim=True)
        probabilities = exponentials / sums
        return probabilities, probabilities, sums[:, 0].log() - _pick(shifted, labels)
    compared = scores.float() if scores.dtype == torch.bfloat16 else scores  # Like NumPy.
    return wide, compared, -_pick(wide, labels).clamp(min=0).log()


def _pick(table: Tensor, column: Tensor) -> Tensor:
    """Return table[i, column[i]] for all i."""
    return table.gather(1, column[:, None])[:, 0]


def _index(bins: Bins, values: Tensor) -> Tensor:
    """Compute Bins.index for a tensor: the same comparisons with the same edges."""
    edges = torch.as_tensor(bins.edges(), device=values.device).to(values.dtype)
    guess = (values.to(widest(values.device)) * bins.count).long().clamp_(0, bins.count - 1)
    if bins.closed == "right":
        guess -= (values <= edges[guess]).long()
        guess += (values > edges[guess.clamp(min=0) + 1]).long()
    else:
        guess -= (values < edges[guess]).long()
        guess += (values >= edges[guess.clamp(min=0) + 1]).long()
    return guess.clamp_(0, bins.count - 1)
