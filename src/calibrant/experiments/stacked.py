"""Cells of a grid that share their batches, trained as one stack of models."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from calibrant.calibrators import calibrator_class
from calibrant.experiments.history import LossCurve
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.outcome import Outcome
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_checks import AUTO
from calibrant.experiments.recipe_parts import build_method, schedule_of
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.tasks.data import StackedData
from calibrant.training.checkpoint import is_static
from calibrant.training.stacked import NotStackableError, Stack
from calibrant.training.windows import Windows

__all__ = ["run_stack", "stacks"]

_MANY_STEPS = 2000  # With fewer, compiling would take longer than it saves.


def stacks(cells: Sequence[Sequence[Recipe]], size: int) -> Iterator[list[list[Recipe]]]:
    """Yield cells that can be trained together, at most ``size`` at once; the others alone.

    Runs of the same data, encoder, schedule and seed go together, with any head and method.
    A stack is captured once for all its seeds, so seeds that the same cells have stay together.
    """
    bodies: dict[tuple[str, int | None], list[Sequence[Recipe]]] = {}
    for number, cell in enumerate(cells):
        alone = number if size == 1 or not _can_stack(cell[0]) else None
        bodies.setdefault((_body(cell[0]), alone), []).append(cell)
    for group in bodies.values():
        for together in _of_same_seeds(group):
            rounds = -(-len(together) // size)
            for first in range(rounds):  # Of about the same size each.
                yield together[first::rounds]


def _of_same_seeds(cells: Sequence[Sequence[Recipe]]) -> Iterator[list[list[Recipe]]]:
    """Split the cells by seeds, so that all parts of one group have the same seeds."""
    having: dict[int, list[int]] = {}
    for number, cell in enumerate(cells):
        for recipe in cell:
            having.setdefault(recipe.seed, []).append(number)
    alike: dict[tuple[int, ...], list[int]] = {}
    for seed, numbers in having.items():
        alike.setdefault(tuple(numbers), []).append(seed)
    for those, seeds in alike.items():
        yield [[recipe for recipe in cells[n] if recipe.seed in seeds] for n in those]


def run_stack(
    cells: Sequence[Sequence[Recipe]], directory: str | None, device: str
) -> Iterator[Outcome | None]:
    """Train all cells seed by seed; yield None after each step, then outcomes.

    Encoders that cannot be stacked train one cell after the other.
    """
    cells = [[recipe.on(device) for recipe in cell] for cell in cells]
    first = cells[0][0]
    task = task_of(first.task)
    data = task.stacked(first, task.prepare(first, directory), directory)
    windows, held = data.windows(device)
    stack: Stack | None = None
    for recipes in zip(*cells, strict=True):
        began = time.perf_counter()
        models = [data.build_model(recipe) for recipe in recipes]
        if stack is None:
            try:
                stack = _stack(cells, models, windows, held)
            except NotStackableError as error:
                for cell in cells:
                    yield from run_cell(cell, directory, device, note=str(error))
                return
        else:
            stack.restart(models, recipes[0].seed)
        curve = LossCurve(len(stack))
        for _ in stack.steps():
            curve.note(stack.number, stack.loss_sums)
            yield None
        while not stack.finished():
            yield None
        seconds = time.perf_counter() - began
        yield from _outcomes(stack, recipes, data, seconds, curve)


def _stack(
    cells: Sequence[Sequence[Recipe]],
    models: Sequence[nn.Module],
    windows: Windows,
    held: Windows | None,
) -> Stack:
    first = cells[0][0]
    schedule = schedule_of(first)
    steps = len(windows) // schedule.batch * schedule.epochs * len(cells[0])
    compiled = windows.device.type == "cuda" and steps >= _MANY_STEPS
    methods = [build_method(cell[0]) for cell in cells]
    return Stack(
        models, methods, windows, schedule, seed=first.seed, holdout=held, compiled=compiled
    )


def _outcomes(
    stack: Stack,
    recipes: Sequence[Recipe],
    data: StackedData,
    seconds: float,
    curve: LossCurve,
) -> Iterator[Outcome]:
    found, shifted = (
        {name: _predict(stack, data, part) for name, part in parts.items()}
        for parts in (data.parts, data.shifted)
    )
    losses = stack.losses()
    for number, recipe in enumerate(recipes):
        made, shift = (
            {name: runs[number] for name, runs in several.items()} for several in (found, shifted)
        )
        training = {
            "steps": len(stack),
            "epochs": recipe.epochs,
            "epoch_taken": recipe.epochs,
            # Its share: all runs of the stack were trained in the same time.
            "seconds": round(seconds / len(recipes), 3),
            "stack": len(recipes),
            "mean_loss": losses[number],
            "loss_curve": curve.means(number),
            "notes": [*data.notes, *filter(None, [stack.note])],
        }
        yield Outcome(recipe, made["valid"], made["test"], training, shift, made.get("ood"))


def _predict(stack: Stack, data: StackedData, part: Any) -> list[Predictions]:
    with stack.on_stream():
        return data.predict(stack.logits, len(stack.runs), stack.device, part)


def _can_stack(recipe: Recipe) -> bool:
    method = build_method(recipe)
    plain = recipe.accumulate == 1 and recipe.optimizer == "adamw"
    can = plain and task_of(recipe.task).stacks and not _asks_for_copies(recipe)
    return can and is_static(method) and not method.needs_model


def _asks_for_copies(recipe: Recipe) -> bool:
    """Whether the calibrator of a run must learn from corrupted copies: a stack makes none."""
    if recipe.copies not in ((AUTO,), ("none",)):
        return True
    return recipe.calibrator != AUTO and calibrator_class(recipe.calibrator).needs_copies


def _body(recipe: Recipe) -> str:
    """Name what all runs of a stack share; a held-out part changes the batches."""
    held = "held" if build_method(recipe).needs_holdout else "whole"
    head = {"head_width": 1, "head_depth": 0, "head_activation": "relu"}
    same = {"method": "cross_entropy", "method_options": {}, "seed": 0, **head}
    return held + dataclasses.replace(recipe, **same).key  # type: ignore[arg-type]
