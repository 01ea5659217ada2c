"""Train recipes with the lean loop: one into a folder, or several seeds of a grid in turn."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.experiments.history import Epoch, History, LossCurve, SavePace
from calibrant.experiments.outcome import Job, Outcome
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import build_method, schedule_of
from calibrant.experiments.reporter import Reporter
from calibrant.experiments.run_folder import RunFolder
from calibrant.tasks import task_of
from calibrant.tasks.data import Data
from calibrant.training import processes
from calibrant.training.checkpoint import read_checkpoint, restore_tensors, write_checkpoint
from calibrant.training.loop import Loop

__all__ = ["RunWatch", "Watch", "run_cell", "train_lean"]

_AGREE = 16  # Processes agree on saving every this many steps.


class Watch:
    """Follows the steps of a run and does nothing: no epoch is measured, nothing is saved."""

    def begin(self, loop: Loop, curve: LossCurve) -> bool:  # noqa: ARG002
        """Start, or continue from a checkpoint; return whether steps are left to take."""
        return True

    def after(self, number: int) -> bool:  # noqa: ARG002
        """Look at the run after a step; return whether training continues."""
        return True

    def end(self) -> Mapping[str, Any]:
        """Load the weights that count; return what a record says of the epochs."""
        return {}


def train_lean(
    recipe: Recipe, job: Job, model: nn.Module, device: str, watch: Watch
) -> dict[str, Any]:
    """Train one recipe to its end; return what a record says of the training."""
    loop = _loop(recipe, job, model, device)
    steps = _train(loop, recipe, watch, time.perf_counter())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loop.close()
            training: dict[str, Any] = end.value
            return training


def run_cell(
    recipes: Sequence[Recipe], directory: str | None, device: str, note: str | None = None
) -> Iterator[Outcome | None]:
    """Train recipes that differ only in the seed, one after the other, with one loop.

    Yields None after each queued step, so that several cells can share a device, and the outcome
    at the end of each run. ``note`` goes to the records.
    """
    recipes = [recipe.on(device) for recipe in recipes]
    job = Job.of(recipes[0], directory)
    model = job.build(recipes[0])
    loop = _loop(recipes[0], job, model, device)
    for number, recipe in enumerate(recipes):
        began = time.perf_counter()
        if number:
            loop.restart(job.build(recipe).state_dict(), recipe.seed)
        training = yield from _train(loop, recipe, Watch(), began)
        training["notes"] = [*filter(None, [note]), *training["notes"]]
        with loop.on_stream():  # The next seed trains the same model.
            outcome = job.outcome(recipe, model, training).without_model()
        yield outcome
    loop.close()


def _loop(recipe: Recipe, job: Job, model: nn.Module, device: str) -> Loop:
    rows, held = job.data.windows(device)
    schedule = schedule_of(recipe)
    return Loop(model, build_method(recipe), rows, schedule, seed=recipe.seed, holdout=held)


def _train(
    loop: Loop, recipe: Recipe, watch: Watch, began: float
) -> Generator[None, None, dict[str, Any]]:
    """Take all steps, pausing after each; leave the model in evaluation mode.

    The generator returns what a record says of the training.
    """
    curve = LossCurve(len(loop))
    for step in loop.steps() if watch.begin(loop, curve) else ():
        curve.note(step, loop.loss_sums)
        yield
        if not watch.after(step):
            break
    while not loop.finished():
        yield
    seconds = round(time.perf_counter() - began, 2)
    loop.model.eval()
    return {
        "steps": loop.number,
        "epochs": recipe.epochs,
        "epoch_taken": recipe.epochs,
        "seconds": seconds,
        "mean_loss": float(processes.add_up(loop.loss)) / max(loop.number, 1),
        "loss_curve": curve.means(),
        **watch.end(),
        "notes": [*filter(None, [loop.note])],
    }


class RunWatch(Watch):
    """A run with a folder: its history, its checkpoints and, with patience, the best weights.

    A checkpoint is written after each epoch, unless epochs are so short that writing would slow
    them down, and every ``save_every`` seconds inside an epoch. Only then does the run wait for the
    device. The first of several processes measures and writes, and the others follow it.
    """

    loop: Loop
    curve: LossCurve

    def __init__(
        self, recipe: Recipe, data: Data, run: RunFolder, save_every: float, reporter: Reporter
    ) -> None:
        self.task, self.data, self.run, self.reporter = task_of(recipe.task), data, run, reporter
        self.pace = SavePace(save_every)
        self.history = History(recipe.patience)
        self.best: dict[str, Tensor] | None = None
        self.loss_before = 0.0
        self.began = time.monotonic()

    def begin(self, loop: Loop, curve: LossCurve) -> bool:
        """Continue from the checkpoint, if there is one."""
        self.loop, self.curve = loop, curve
        if loop.note:
            self.reporter.line(loop.note)
        saved = read_checkpoint(self.run.checkpoint, loop.device)
        if saved is not None:
            self._resume(saved)
        return not self.history.stops

    def _resume(self, saved: Mapping[str, Any]) -> None:
        if saved["data"] != self.data.fingerprint:
            raise InputError(
                f"The data '{self.data.name}' have changed since {self.run.path} was started: "
                "restore them, or name a new folder."
            )
        self.loop.load(saved["loop"])
        self.curve.load(saved.get("curve", ()), self.loop.number, self.loop.device)
        self.history = History.from_dict(saved["history"])
        self.best, self.loss_before = saved["best"], saved["loss_before"]
        self.began -= saved["seconds"]
        self.reporter.line(f"Continuing after step {self.loop.number:,} of {len(self.loop):,}.")

    def after(self, number: int) -> bool:
        """Measure at the end of an epoch, and save when it is time."""
        self.reporter.step(number, self.loop.epoch_steps)
        ends = number % self.loop.epoch_steps == 0
        if ends:
            self.end_epoch()
        if self._is_due(number, ends):
            began = self.pace.now()
            self.save()
            self.pace.wrote(began)
        return not self.history.stops

    def _is_due(self, number: int, ends: bool) -> bool:
        """Whether to save; several processes agree on it every few steps and after each epoch."""
        if processes.world() == 1:
            return self.pace.is_due(ends)
        asks = ends or number % _AGREE == 0
        return asks and bool(processes.first_says(self.pace.is_due(ends)))

    def save(self) -> None:
        """Write a checkpoint."""
        content: dict[str, Any] = {
            "data": self.data.fingerprint,
            "loop": self.loop.state(),
            "curve": self.curve.state(),
            "history": self.history.to_dict(),
            "best": self.best,
            "loss_before": self.loss_before,
            "seconds": time.monotonic() - self.began,
        }
        if not processes.rank():
            write_checkpoint(self.run.checkpoint, content)

    def end_epoch(self) -> None:
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
            with loop.on_stream():  # Before the next steps change the weights.
                self.best = {name: v.clone() for name, v in loop.model.state_dict().items()}
        if processes.rank() == 0:
            self.history.write(self.run.log)
        self.reporter.epoch(epoch)

    def end(self) -> Mapping[str, Any]:
        """Take the weights of the best epoch, if there is patience."""
        if self.best is not None:
            restore_tensors(self.loop.model.state_dict(), self.best)
        if processes.rank() == 0:
            self.history.write(self.run.log)
        return self.history.training()
