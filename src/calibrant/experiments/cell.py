"""One cell of a grid: recipes that differ in nothing but the seed share data, shapes and graphs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibrant.errors import InputError
from calibrant.experiments.preparation import build_method, build_model, prepare, schedule_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.shift import shifted_tests
from calibrant.predictions import Predictions
from calibrant.training.loop import Loop
from calibrant.training.prediction import predict_words

__all__ = ["Outcome", "check_cell", "run_cell"]


@dataclass(frozen=True)
class Outcome:
    """What a trained model predicts, and how the training went."""

    recipe: Recipe
    valid: Predictions
    test: Predictions
    training: dict[str, Any]
    shift: dict[str, Predictions] = field(default_factory=dict)


def run_cell(
    recipes: Sequence[Recipe], directory: str | None, device: str
) -> Iterator[Outcome | None]:
    """Train one recipe after the other; yields None after each queued step, then the outcome.

    The caller takes turns between cells, so their streams share the device.
    """
    first = recipes[0]
    check_cell(first)
    data = prepare(first, directory)
    others = shifted_tests(first, data, directory)
    model = build_model(first, data)
    windows, held = data.windows(device)
    loop = Loop(
        model, build_method(first), windows, schedule_of(first), seed=first.seed, holdout=held
    )
    for number, recipe in enumerate(recipes):
        began = time.perf_counter()
        if number:
            loop.restart(build_model(recipe, data).state_dict(), recipe.seed)
        for _ in loop.steps():
            yield None
        while not loop.finished():
            yield None
        seconds = time.perf_counter() - began
        model.eval()
        with loop.on_stream():
            valid = predict_words(model, data.dev, data.labels, padding=data.padding)
            test = predict_words(model, data.test, data.labels, padding=data.padding)
            shift = {
                name: predict_words(model, part, data.labels, padding=data.padding)
                for name, part in others.items()
            }
        training = {
            "steps": len(loop),
            "seconds": round(seconds, 2),
            "mean_loss": float(loop.loss) / len(loop),
            "notes": list(data.corpus.notes),
        }
        yield Outcome(recipe, valid, test, training, shift)
    loop.close()


def check_cell(recipe: Recipe) -> None:
    """Raise an error for what a grid does not run."""
    if recipe.engine != "lean" or recipe.patience:
        raise InputError(
            "A grid runs the lean engine to the last epoch: leave engine and patience out, or "
            "train that recipe by itself."
        )
