"""The course of a training run: its losses and epochs, when to stop, and when to save."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant.json_values import json_values
from calibrant.metrics import accumulate, ece, nll
from calibrant.outputs import new_file
from calibrant.predictions import Predictions
from calibrant.tasks.task import Task
from calibrant.training import processes

__all__ = ["Epoch", "History", "LossCurve", "SavePace"]

_APART = 19  # Times the duration of the last write: writing takes about a twentieth of the time.


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch: its mean training loss, and the validation split after it.

    ``score`` is the score of the task, F1 of entities or accuracy; NaN without examples to judge.
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
        """Make the epoch whose model gives these validation predictions."""
        state = accumulate(valid)
        numbers = (task.score(valid), float(ece(state)), float(nll(state)))
        return cls(epoch, step, loss, *numbers, round(seconds, 2), task.score_name)

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.4f}   {self.score_name} {self.score:.4f}   ECE {self.ece:.4f}   "
            f"NLL {self.nll:.4f}   {self.seconds:.1f} s"
        )

    def row(self) -> dict[str, Any]:
        """Return a row of the log, with the score under its own name in lower case."""
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
        """Add an epoch; return whether it is the best so far."""
        self.epochs.append(epoch)
        better = not self.best or _rank(epoch) > _rank(self.epochs[self.best - 1])
        if better:
            self.best = epoch.epoch
        return better

    @property
    def stops(self) -> bool:
        """Whether the last ``patience`` epochs were no better."""
        return 0 < self.patience <= len(self.epochs) - self.best

    def training(self) -> dict[str, Any]:
        """Return what a record says of the epochs."""
        taken = self.best if self.patience else len(self.epochs)
        seconds = round(sum(epoch.seconds for epoch in self.epochs), 2)
        return {"epochs": len(self.epochs), "epoch_taken": taken, "seconds": seconds}

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> History:
        """Make the history that a checkpoint holds."""
        epochs = [Epoch(**epoch) for epoch in content["epochs"]]
        return cls(content["patience"], epochs, content["best"])

    def write(self, path: Path) -> None:
        """Write one JSON line per epoch, with NaN as null."""
        rows = [json_values(epoch.row()) for epoch in self.epochs]
        with new_file(path, overwrite=True) as unfinished:
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _rank(epoch: Epoch) -> float:
    return -1.0 if math.isnan(epoch.score) else epoch.score


class LossCurve:
    """The mean loss over each of about fifty parts of a training run.

    The sums stay on the device until the end, so that no step waits for them.
    """

    def __init__(self, steps: int, parts: int = 50) -> None:
        self.every = max(1, steps // parts)
        self._sums: list[Tensor] = []

    def note(self, done: int, sums: Callable[[], Tensor]) -> None:
        """Keep the runs' sums of losses after ``done`` steps, if a part ends there."""
        if done % self.every == 0:
            self._sums.append(sums())

    def state(self) -> list[float]:
        """Return what a checkpoint keeps of a single run; waits for the device."""
        return self._totals(0)

    def load(self, state: Sequence[float], done: int, device: torch.device) -> None:
        """Continue after ``done`` steps; parts that the state lacks have no mean."""
        unknown = [math.nan] * (done // self.every - len(state))
        sums = torch.tensor([*state, *unknown], device=device).view(-1, 1)
        self._sums = list(torch.zeros_like(sums) if processes.rank() else sums)

    def means(self, run: int = 0) -> dict[str, Any]:
        """Return the steps of a part and the run's mean loss in each; waits for the device."""
        parts = np.diff(np.array([0.0, *self._totals(run)])) / self.every
        return {"every": self.every, "losses": [float(f"{part:.4g}") for part in parts]}

    def _totals(self, run: int) -> list[float]:
        """Return the sums over all processes."""
        if not self._sums:
            return []
        sums: list[float] = processes.add_up(torch.stack(self._sums)[:, run]).tolist()
        return sums


class SavePace:
    """Counts the time since the last checkpoint and how long that took.

    A checkpoint is due after ``every`` seconds, and at the end of an epoch if the last one is at
    least :data:`_APART` times its own writing time ago: a hundred short epochs do not write a
    hundred checkpoints.
    """

    def __init__(self, every: float, now: Callable[[], float] = time.monotonic) -> None:
        self.every, self.now = every, now
        self.saved, self.took = now(), 0.0

    def is_due(self, ends: bool) -> bool:
        """Whether to write a checkpoint now, at the end of an epoch (``ends``) or inside one."""
        since = self.now() - self.saved
        return since >= (min(self.every, _APART * self.took) if ends else self.every)

    def wrote(self, began: float) -> None:
        """Note that a checkpoint is complete; ``began`` is when writing it began."""
        self.saved = self.now()
        self.took = self.saved - began
