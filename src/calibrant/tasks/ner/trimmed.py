"""Keep the word pieces that occur: the rest of an embedding table is never read, only decayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calibrant.predictions import Predictions
from calibrant.tasks.ner.data import NerData
from calibrant.tasks.ner.subword_windows import Pieces
from calibrant.tasks.ner.word_predictions import predict_runs
from calibrant.tasks.task import Task
from calibrant.training.windows import Windows

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["TrimmedData", "occurring", "renumber", "trim_embeddings"]

_SPECIAL = 8  # Ids below it belong to special pieces.
_PIECES = 1 << 18  # Word pieces of all runs together in one forward pass.


class TrimmedData:
    """Data whose ids count only the pieces that occur, for runs that are trained together."""

    def __init__(self, task: Task, recipe: Recipe, whole: NerData, directory: str | None) -> None:
        self.task, self.whole, self.notes = task, whole, whole.notes
        shifted = task.shifted(recipe, whole, directory)
        self.kept = occurring([*whole.splits.values(), *shifted.values()], whole.padding)
        self.padding = int(self.kept.searchsorted(whole.padding))
        self.splits, self.parts, self.shifted = (
            {name: renumber(part, self.kept) for name, part in parts.items()}
            for parts in (whole.splits, whole.parts, shifted)
        )

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """Put the training part, and the held-out one, on a device."""
        held = self.splits.get("held")
        return (
            Windows(self.splits["train"], device, self.padding),
            None if held is None else Windows(held, device, self.padding),
        )

    def build_model(self, recipe: Recipe) -> nn.Module:
        """Build the model of one run, its embeddings trimmed."""
        return trim_embeddings(self.task.build_model(recipe, self.whole), self.kept)

    def predict(
        self, logits: Callable[..., Any], runs: int, device: torch.device, part: Pieces
    ) -> list[Predictions]:
        """Predict one row per word with each run; ``logits`` returns those of all."""
        return predict_runs(
            logits,
            device,
            part,
            self.whole.labels,
            padding=self.padding,
            pieces=_PIECES // runs,
        )


def occurring(parts: Sequence[Pieces], padding: int) -> np.ndarray:
    """Return the sorted ids of every piece in ``parts``, and of the padding.

    A padding among the first ids keeps its number, and so do those before it: relatives of RoBERTa
    count positions from there on.
    """
    first = np.arange(padding + 1) if padding < _SPECIAL else [padding]
    return np.unique(np.concatenate([first, *(part.ids for part in parts)]))


def renumber(part: Pieces, kept: np.ndarray) -> Pieces:
    """Replace each id by its place in ``kept``."""
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
