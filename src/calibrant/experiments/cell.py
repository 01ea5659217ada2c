"""One cell of a grid: recipes that differ in nothing but the seed share data, shapes and graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import build_method, schedule_of
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.training.loop import Loop

__all__ = ["LossCurve", "Outcome", "check_cell", "run_cell"]


@dataclass(frozen=True)
class Outcome:
    """What a trained model predicts, and how the training went."""

    recipe: Recipe
    valid: Predictions
    test: Predictions
    training: dict[str, Any]
    shift: dict[str, Predictions] = field(default_factory=dict)
    ood: Predictions | None = None
    outside: np.ndarray | None = None  # logits of what belongs to no class


class LossCurve:
    """The mean loss over each of about fifty parts of a training run.

    The sums stay on the device until the end, so that no step waits for them.
    """

    def __init__(self, steps: int, parts: int = 50) -> None:
        self.every = max(1, steps // parts)
        self._sums: list[torch.Tensor] = []

    def note(self, done: int, sums: Callable[[], torch.Tensor]) -> None:
        """Keep the runs' sums of losses after ``done`` steps, if a part ends there."""
        if done % self.every == 0:
            self._sums.append(sums())

    def means(self, run: int) -> dict[str, Any]:
        """Return the steps of a part and the run's mean loss in each; waits for the device."""
        sums = [float(each[run]) for each in self._sums]
        parts = np.diff(np.array([0.0, *sums])) / self.every
        return {"every": self.every, "losses": [float(f"{part:.4g}") for part in parts]}


def run_cell(
    recipes: Sequence[Recipe], directory: str | None, device: str, note: str | None = None
) -> Iterator[Outcome | None]:
    """Train one recipe after the other; yields None after each queued step, then the outcome.

    ``note`` goes into the records of all.

    The caller takes turns between cells, so their streams share the device.
    """
    first = recipes[0]
    task = task_of(first.task)
    data = task.prepare(first, directory)
    others = task.shifted(first, data, directory)
    model = task.build_model(first, data)
    windows, held = data.windows(device)
    loop = Loop(
        model, build_method(first), windows, schedule_of(first), seed=first.seed, holdout=held
    )
    for number, recipe in enumerate(recipes):
        began = time.perf_counter()
        if number:
            loop.restart(task.build_model(recipe, data).state_dict(), recipe.seed)
        curve = LossCurve(len(loop))
        for _ in loop.steps():
            curve.note(loop.number, loop.loss_sums)
            yield None
        while not loop.finished():
            yield None
        seconds = time.perf_counter() - began
        model.eval()
        with loop.on_stream():
            made = {split: data.predict(model, part) for split, part in data.parts.items()}
            shift = {name: data.predict(model, part) for name, part in others.items()}
            outside = data.outside(model)
        training = {
            "steps": len(loop),
            "seconds": round(seconds, 2),
            "mean_loss": float(loop.loss) / len(loop),
            "loss_curve": curve.means(0),
            "notes": [*data.notes, *filter(None, [note, loop.note])],
        }
        ood = made.get("ood")
        yield Outcome(recipe, made["valid"], made["test"], training, shift, ood, outside)
    loop.close()


def check_cell(recipe: Recipe) -> None:
    """Raise an error for what a grid does not run."""
    if recipe.engine != "lean" or recipe.patience:
        raise InputError(
            "A grid runs the lean engine to the last epoch: leave engine and patience out, or keep "
            "the folder of each run (--keep)."
        )
