"""The method and the schedule that a recipe is trained with."""

from __future__ import annotations

from calibrant.experiments.recipe import Recipe
from calibrant.methods import create
from calibrant.methods.base import Method
from calibrant.training.schedule import Schedule

__all__ = ["build_method", "schedule_of"]


def build_method(recipe: Recipe) -> Method:
    """Create the recipe's method."""
    return create(recipe.method, **recipe.method_options)


def schedule_of(recipe: Recipe) -> Schedule:
    """Return the settings of a recipe that the lean loop takes."""
    return Schedule(
        epochs=recipe.epochs,
        batch=recipe.batch,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        warm_up=recipe.warm_up,
        dtype=recipe.dtype,
        accumulate=recipe.accumulate,
        optimizer_name=recipe.optimizer,
        momentum=recipe.momentum,
        decay=recipe.decay,
        clip=recipe.clip,
    )
