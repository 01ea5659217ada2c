"""Small data: enough optimizer steps by default, and a word where a run has learned nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.task import Data, entry_of
from calibrant.metrics import accumulate, accuracy
from calibrant.predictions import Predictions

__all__ = ["LEAST_STEPS", "MOST_EPOCHS", "enough_epochs", "nothing_learned"]

# What it was chosen by is in docs/train-and-predict.md.
LEAST_STEPS = 400
MOST_EPOCHS = 100  # Each epoch is measured and saved, which takes longer than a step or two.
# Whoever says O everywhere has an F1 of 0, whoever guesses hits a few entities.
_ZERO_F1, _LOW_F1 = 0.05, 0.2


def enough_epochs(recipe: Recipe, data: Data, device: str) -> Recipe:
    """The recipe with at least :data:`LEAST_STEPS` steps, in at most :data:`MOST_EPOCHS` epochs.

    For those who have not said how many epochs they want.
    """
    rows, _ = data.windows(device)
    steps = len(rows.plan(recipe.batch, 1, recipe.seed))
    enough = min(math.ceil(LEAST_STEPS / steps), MOST_EPOCHS)
    return replace(recipe, epochs=max(recipe.epochs, enough))


def nothing_learned(recipe: Recipe, test: Predictions, steps: int) -> str | None:
    """What to say of a model no better than one that always gives the most frequent class.

    And what to try; None for a model that is better, or where nothing can be told.
    """
    if not len(test) or len(np.unique(test.labels)) < 2:
        return None
    task = entry_of(recipe.task)
    score, most = task.score(test), np.bincount(test.labels).max() / len(test)
    right = float(accuracy(accumulate(test)))
    tags = task.score_name == "F1"
    if score >= _LOW_F1 or (score >= _ZERO_F1 and right > most) if tags else right > most:
        return None
    got = f"F1 {score:.3f}" if tags else f"accuracy {right:.3f}"
    always = "O for every word" if tags else "the most frequent class alone"
    return (
        f"The model has learned nothing: {got} on the test split, where {always} would be right "
        f"in {most:.1%}. "
        f"It took {steps:,} steps at a learning rate of {recipe.learning_rate:g}: "
        f"{_advice(recipe, steps)}."
    )


def _advice(recipe: Recipe, steps: int) -> str:
    if steps < LEAST_STEPS:
        epochs = math.ceil(recipe.epochs * LEAST_STEPS / max(steps, 1))
        return f"try --epochs {epochs}, or more training data"
    rate = 10 * recipe.learning_rate if recipe.model == "tiny" else 4 * recipe.learning_rate
    if recipe.task in ("ner", "text"):
        return f"try --learning-rate {rate:g}, and check that the labels fit the examples"
    return "try another --learning-rate, and check that the labels fit the examples"
