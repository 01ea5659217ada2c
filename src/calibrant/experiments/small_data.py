"""Small data: enough optimizer steps by default, and a warning if a run has learned nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrant.experiments.recipe import Recipe
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.tasks.data import Data

__all__ = ["LEAST_STEPS", "MOST_EPOCHS", "enough_epochs", "nothing_learned"]

# The measurements behind it are in docs/train-and-predict.md.
LEAST_STEPS = 400
# With 3 sentences per batch, a base-size encoder may never start (docs/findings/papers-setting.md).
_FEW = 8
MOST_EPOCHS = 100  # Each epoch is measured and saved, which takes longer than a step or two.


def enough_epochs(recipe: Recipe, data: Data, device: str) -> Recipe:
    """Give a recipe at least :data:`LEAST_STEPS` steps, in at most :data:`MOST_EPOCHS` epochs.

    Used if no number of epochs is given.
    """
    rows, _ = data.windows(device)
    steps = len(rows.plan(recipe.batch, 1, recipe.seed))
    enough = min(math.ceil(LEAST_STEPS / steps), MOST_EPOCHS)
    return replace(recipe, epochs=max(recipe.epochs, enough))


def nothing_learned(
    recipe: Recipe, test: Predictions, steps: int, valid: Predictions | None = None
) -> str | None:
    """Describe a model no better than one that always gives the most frequent class.

    The sentence also says what to try. It is None for a better model, and if the data cannot show
    it. A model that is better on ``valid`` has learned something: the test split may hold only
    types of entities that training lacks.
    """
    found = task_of(recipe.task).nothing_learned(test) if _can_tell(test) else None
    if valid is not None and _can_tell(valid):
        found = found if task_of(recipe.task).nothing_learned(valid) else None
    if recipe.wrapped:
        return found and f"The model knows little of this data: {found}. Check its --labels."
    return found and (
        f"The model has learned nothing: {found}. "
        f"It took {steps:,} steps at a learning rate of {recipe.learning_rate:g}: "
        f"{_advice(recipe, steps)}."
    )


def _can_tell(split: Predictions) -> bool:
    """Whether a model can be better than one class for all."""
    return len(np.unique(split.labels)) > 1


def _advice(recipe: Recipe, steps: int) -> str:
    if steps < LEAST_STEPS:
        epochs = math.ceil(recipe.epochs * LEAST_STEPS / max(steps, 1))
        return f"try --epochs {epochs}, or more training data"
    if recipe.batch < _FEW and task_of(recipe.task).pretrained:
        return "try a larger --batch, or another --seed"
    rate = 10 * recipe.learning_rate if recipe.model == "tiny" else 4 * recipe.learning_rate
    if task_of(recipe.task).pretrained:
        return f"try --learning-rate {rate:g}, and check that the labels fit the examples"
    return "try another --learning-rate, and check that the labels fit the examples"
