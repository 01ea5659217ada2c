"""The method and the schedule of a recipe, and a trial step of the method."""

from __future__ import annotations

import torch
from torch import nn

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.recipe import Recipe
from calibrant.methods import create
from calibrant.methods.base import Method
from calibrant.training.head_hook import attach
from calibrant.training.schedule import Schedule

__all__ = ["build_method", "schedule_of", "try_method"]

_EXAMPLES, _WIDTH, _CLASSES = 8, 4, 3  # Of the trial.


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


def try_method(recipe: Recipe) -> None:
    """Raise an error in one line if the method cannot take a step with the recipe's options.

    >>> try_method(Recipe(method="focal", method_options={"gamma": "three"}))
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Method 'focal' cannot be trained with gamma='three': ...
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        try:
            _step(recipe)
        except CalibrantError:
            raise
        except Exception as error:  # Any result of an option of the wrong type or size.
            given = ", ".join(f"{name}={value!r}" for name, value in recipe.method_options.items())
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise InputError(
                f"Method '{recipe.method}' cannot be trained with {given or 'its defaults'}: "
                f"{reason}."
            ) from None


class _Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(_WIDTH, _WIDTH)
        self.classifier = nn.Linear(_WIDTH, _CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.encoder(inputs))
        return logits


def _step(recipe: Recipe) -> None:
    method, model = build_method(recipe), _Classifier()
    for part in method.parts_needing_examples():
        part.expect(_EXAMPLES)
    inputs, labels = torch.randn(_EXAMPLES, _WIDTH), torch.arange(_EXAMPLES) % _CLASSES
    with attach(model, method) as hook:
        with torch.no_grad():
            holdout = hook.step(model(inputs), labels)
        mixed, targets = method.prepare((inputs, labels))
        more = {"holdout": holdout, "examples": torch.arange(_EXAMPLES)}
        loss = method.loss(hook.step(model(mixed), targets, **more))
        torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
