"""The course of a training run: one row per epoch, and when to stop."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibrant.experiments.record import without_nan
from calibrant.metrics import accumulate, ece, entity_f1, nll
from calibrant.outputs import new_file
from calibrant.predictions import Predictions

__all__ = ["Epoch", "History"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to: its mean training loss, and the validation split after it."""

    epoch: int
    step: int
    loss: float
    f1: float  # of entities; NaN where none are predicted and none are there
    ece: float
    nll: float
    seconds: float

    @classmethod
    def measured(
        cls, epoch: int, step: int, loss: float, valid: Predictions, seconds: float
    ) -> Epoch:
        """The epoch whose model gives these validation predictions."""
        state = accumulate(valid)
        numbers = (float(entity_f1(valid)), float(ece(state)), float(nll(state)))
        return cls(epoch, step, loss, *numbers, round(seconds, 2))

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.4f}   F1 {self.f1:.4f}   ECE {self.ece:.4f}   NLL {self.nll:.4f}"
            f"   {self.seconds:.1f} s"
        )


@dataclass
class History:
    """The epochs so far. With ``patience``, the best one counts, else the last.

    >>> history = History(patience=1)
    >>> for number, f1 in enumerate((0.5, 0.7, 0.6), start=1):
    ...     _ = history.add(Epoch(number, 10 * number, 0.1, f1, 0.02, 0.1, 1.0))
    >>> history.best, history.stops
    (2, True)
    """

    patience: int = 0
    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0  # epoch of the best validation F1, the first of several; 0: none yet

    def add(self, epoch: Epoch) -> bool:
        """Note an epoch; true if it is the best so far."""
        self.epochs.append(epoch)
        better = not self.best or _rank(epoch) > _rank(self.epochs[self.best - 1])
        if better:
            self.best = epoch.epoch
        return better

    @property
    def stops(self) -> bool:
        """Whether ``patience`` epochs have brought nothing better."""
        return 0 < self.patience <= len(self.epochs) - self.best

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> History:
        """From a checkpoint."""
        epochs = [Epoch(**epoch) for epoch in content["epochs"]]
        return cls(content["patience"], epochs, content["best"])

    def write(self, path: Path) -> None:
        """One JSON line per epoch; NaN as null."""
        rows = [without_nan(asdict(epoch)) for epoch in self.epochs]
        with new_file(path, overwrite=True) as unfinished:
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _rank(epoch: Epoch) -> float:
    return -1.0 if math.isnan(epoch.f1) else epoch.f1
