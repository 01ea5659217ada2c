"""The course of a training run: one row per epoch, and when to stop."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibrant.json_values import json_values
from calibrant.metrics import accumulate, ece, nll
from calibrant.outputs import new_file
from calibrant.predictions import Predictions
from calibrant.tasks.task import Task

__all__ = ["Epoch", "History"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to: its mean training loss, and the validation split after it.

    ``score`` is what the task is judged by, F1 of entities or accuracy; NaN where there is nothing
    to judge.
    """

    epoch: int
    step: int
    loss: float
    score: float
    ece: float
    nll: float
    seconds: float
    score_name: str = "F1"

    @classmethod
    def measured(
        cls, task: Task, epoch: int, step: int, loss: float, valid: Predictions, seconds: float
    ) -> Epoch:
        """The epoch whose model gives these validation predictions."""
        state = accumulate(valid)
        numbers = (task.score(valid), float(ece(state)), float(nll(state)))
        return cls(epoch, step, loss, *numbers, round(seconds, 2), task.score_name)

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.4f}   {self.score_name} {self.score:.4f}   ECE {self.ece:.4f}   "
            f"NLL {self.nll:.4f}   {self.seconds:.1f} s"
        )

    def row(self) -> dict[str, Any]:
        """For a log: the score under its own name, in small letters."""
        row = asdict(self)
        name = row.pop("score_name").lower()
        return {name if key == "score" else key: value for key, value in row.items()}


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
    best: int = 0  # epoch of the best validation score, the first of several; 0: none yet

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
        rows = [json_values(epoch.row()) for epoch in self.epochs]
        with new_file(path, overwrite=True) as unfinished:
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _rank(epoch: Epoch) -> float:
    return -1.0 if math.isnan(epoch.score) else epoch.score
