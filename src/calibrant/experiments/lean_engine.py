"""Train a recipe with the lean loop, from wherever its last checkpoint stands."""

from __future__ import annotations

import time
from typing import Any

from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.experiments.history import Epoch, History
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import build_method, schedule_of
from calibrant.experiments.reporter import Telling
from calibrant.experiments.run_folder import RunFolder
from calibrant.experiments.save_pace import SavePace
from calibrant.tasks import task_of
from calibrant.tasks.task import Data
from calibrant.training import processes
from calibrant.training.checkpoint import read_checkpoint, restore_tensors, write_checkpoint
from calibrant.training.loop import Loop

__all__ = ["train_lean"]

_AGREE = 16  # Steps between two questions to the first process.


def train_lean(
    recipe: Recipe,
    data: Data,
    model: nn.Module,
    run: RunFolder,
    device: str,
    save_every: float,
    tell: Telling,
) -> History:
    """Train ``model``, leave it in evaluation mode, and say how it came about.

    A checkpoint is written after each epoch, unless epochs are so short that writing would slow
    them down, and inside of one every ``save_every`` seconds; the device is waited for then, and at
    no other time. Of several processes the first measures and
    writes, and tells the others when.
    """
    windows, held = data.windows(device)
    loop = Loop(
        model, build_method(recipe), windows, schedule_of(recipe), seed=recipe.seed, holdout=held
    )
    if loop.note:
        tell.line(loop.note)
    course = _Course(recipe, data, run, loop)
    course.resume(tell)
    pace = SavePace(save_every)
    for number in () if course.history.stops else loop.steps():
        tell.step(number, loop.epoch_steps)
        ends = number % loop.epoch_steps == 0
        if ends:
            course.end_epoch(tell)
        if _is_due(number, ends, pace):
            began = pace.now()
            course.save()
            pace.wrote(began)
        if course.history.stops:
            break
    loop.wait()
    loop.close()
    if course.best is not None:
        restore_tensors(model.state_dict(), course.best)
    return course.history


def _is_due(number: int, ends: bool, pace: SavePace) -> bool:
    """Whether to save; several processes agree on it every few steps and after each epoch."""
    if processes.world() == 1:
        return pace.is_due(ends)
    return (ends or number % _AGREE == 0) and bool(processes.first_says(pace.is_due(ends)))


class _Course:
    """A loop with its history and, where stopping is allowed, the best weights so far."""

    def __init__(self, recipe: Recipe, data: Data, run: RunFolder, loop: Loop) -> None:
        self.task, self.data, self.run, self.loop = task_of(recipe.task), data, run, loop
        self.history = History(recipe.patience)
        self.best: dict[str, Tensor] | None = None
        self.loss_before = 0.0
        self.began = time.monotonic()

    def resume(self, tell: Telling) -> None:
        saved = read_checkpoint(self.run.checkpoint, self.loop.device)
        if saved is None:
            return
        if saved["data"] != self.data.fingerprint:
            raise InputError(
                f"{self.run.path} was begun with other data than '{self.data.name}' holds "
                "now: restore it, or name a new folder."
            )
        self.loop.load(saved["loop"])
        self.history = History.from_dict(saved["history"])
        self.best, self.loss_before = saved["best"], saved["loss_before"]
        self.began -= saved["seconds"]
        tell.line(f"Going on after step {self.loop.number:,} of {len(self.loop):,}.")

    def save(self) -> None:
        content: dict[str, Any] = {
            "data": self.data.fingerprint,
            "loop": self.loop.state(),
            "history": self.history.to_dict(),
            "best": self.best,
            "loss_before": self.loss_before,
            "seconds": time.monotonic() - self.began,
        }
        if processes.rank():
            return
        write_checkpoint(self.run.checkpoint, content)

    def end_epoch(self, tell: Telling) -> None:
        """Measure the validation split; the seconds are those of training and measuring."""
        loop, data = self.loop, self.data
        steps, now = loop.epoch_steps, loop.number
        epoch: Epoch | None = None
        with loop.evaluating():
            total = float(processes.add_up(loop.loss))
            if processes.rank() == 0:
                valid = data.predict(loop.model, data.parts["valid"])
                mean, seconds = (total - self.loss_before) / steps, time.monotonic() - self.began
                epoch = Epoch.measured(self.task, now // steps, now, mean, valid, seconds)
        epoch = processes.first_says(epoch)
        assert epoch is not None
        self.loss_before, self.began = total, time.monotonic()
        if self.history.add(epoch) and self.history.patience:
            with loop.on_stream():  # Before the steps to come change the weights.
                self.best = {name: v.clone() for name, v in loop.model.state_dict().items()}
        if processes.rank() == 0:
            self.history.write(self.run.log)
        tell.epoch(epoch)
