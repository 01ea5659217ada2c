"""The tasks that can be trained: one table, and what each of them must offer.

A task is a row of :data:`TASKS` and a module with an object of five functions
(:class:`Trainable`), imported when it is first asked for. Everything else (engines, grids, run
folders, the command line) asks the table, and knows no task by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from calibrant.errors import unknown_name
from calibrant.experiments.measure import measure_classes, measure_pixels, measure_tags
from calibrant.metrics import Scene, accumulate, accuracy, entity_f1, mean_iou
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from torch import nn

    from calibrant.experiments.recipe import Recipe
    from calibrant.training.windows import Rows

__all__ = ["TASKS", "Data", "Entry", "Pictured", "Trainable", "entry_of", "task_of"]


class Data(Protocol):
    """Data made ready for a model; ``notes`` says aloud what was done to it."""

    @property
    def name(self) -> str:
        """As the recipe names it."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to it: a split carved, texts shortened."""

    @property
    def fingerprint(self) -> str:
        """The same for the same data, and for no other."""

    @property
    def parts(self) -> Mapping[str, Any]:
        """What is predicted: ``valid``, ``test`` and, where some of it has classes, ``ood``."""

    def windows(self, device: str) -> tuple[Rows, Rows | None]:
        """The training part, and the held-out one where a method needs it, on a device."""

    def predict(self, model: nn.Module, part: Any) -> Predictions:
        """The predictions of a model in evaluation mode for one of the parts, or a shifted one."""

    def outside(self, model: nn.Module) -> np.ndarray | None:
        """Logits of what belongs to no class, such as out-of-scope queries, where there is any."""


@runtime_checkable
class Pictured(Protocol):
    """Data of which the report shows pictures."""

    def scenes(self, model: nn.Module, temperature: float = 1.0) -> Sequence[Scene]:
        """Some test images with the maps of a model whose logits are divided by a temperature."""


class Trainable(Protocol):
    """What the module of a task offers."""

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Raise an error for data, network or ``shift`` that is nowhere; reads none of them."""

    def prepare(self, recipe: Recipe, directory: str | None = None) -> Any:
        """The :class:`Data` of a recipe."""

    def build_model(self, recipe: Recipe, data: Any) -> nn.Module:
        """A new model, its fresh weights drawn from the recipe's seed."""

    def write_model(self, recipe: Recipe, data: Any, model: Any, folder: Path) -> None:
        """The trained model, into an empty folder."""

    def shifted(self, recipe: Recipe, data: Any, directory: str | None) -> Mapping[str, Any]:
        """The parts that the recipe's ``shift`` names, for ``data.predict``."""


@dataclass(frozen=True)
class Entry:
    """A row of the table.

    ``factory`` is "module:name" in this package; ``measure`` gives every number of a record, and
    ``score`` the one that early stopping watches and each epoch is told with, ``score_name``.
    ``shown`` are the numbers that a run is told with at its end. ``defaults`` stand where a recipe
    of this task says nothing, in place of those of :class:`~calibrant.experiments.recipe.Recipe`;
    ``own`` are the settings that not every task has, ``own_maps`` the post-hoc maps.
    """

    factory: str
    summary: str
    measure: Callable[[Predictions], dict[str, float]]
    score: Callable[[Predictions], float]
    score_name: str
    shown: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    own_maps: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("lean",)
    stacks: bool = False  # whether runs can be trained as one stack of models
    hint: str = ""  # what to try with a finished {run}


def _accuracy(predictions: Predictions) -> float:
    return float(accuracy(accumulate(predictions)))


_CLASSES_SHOWN = {
    "accuracy": "accuracy",
    "ece": "ECE",
    "adaptive_ece": "adaptive ECE",
    "classwise_ece": "classwise ECE",
    "nll": "NLL",
    "brier": "Brier",
}

TASKS: dict[str, Entry] = {
    "ner": Entry(
        "ner:Ner",
        "named entity recognition: words with BIO tags",
        measure_tags,
        lambda predictions: float(entity_f1(predictions)),
        "F1",
        {
            "entity_f1": "F1",
            "ece": "ECE",
            "nll": "NLL",
            "entity_ece": "entity ECE",
            "apcr": "APCR",
        },
        own=("max_length", "train_file", "dev_file", "test_file", "unseen_types"),
        own_maps=("type-temperature", "position-temperature"),
        engines=("lean", "trainer"),
        stacks=True,
        hint='Try: calibrant predict {run} "Anna Lind lives in Paris ."',
    ),
    "text": Entry(
        "text:Text",
        "text classification: one class for each text",
        measure_classes,
        _accuracy,
        "accuracy",
        _CLASSES_SHOWN,
        defaults={"data": "synthetic", "learning_rate": 1e-4, "max_length": 256},
        own=("max_length",),
        engines=("lean", "trainer"),
    ),
    "image": Entry(
        "image:Image",
        "image classification: one class for each image",
        measure_classes,
        _accuracy,
        "accuracy",
        _CLASSES_SHOWN,
        defaults={
            "data": "digits",
            "model": "lenet",
            "head_depth": 0,
            "epochs": 20,
            "batch": 64,
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "weight_decay": 5e-4,
            "decay": "cosine",
            "warm_up": 0.1,
            "clip": 0.0,
            "augment": "crop",
        },
        own=("augment", "compile", "image_size"),
    ),
    "segmentation": Entry(
        "segmentation:Segmentation",
        "semantic segmentation: one class for each pixel of an image",
        measure_pixels,
        lambda predictions: float(mean_iou(predictions)),
        "mIoU",
        {
            "mean_iou": "mIoU",
            "ece": "ECE",
            "border_ece": "ECE near borders",
            "classwise_ece": "classwise ECE",
            "accuracy": "accuracy",
            "nll": "NLL",
        },
        defaults={
            "data": "shapes",
            "model": "unet",
            "head_width": 16,
            "head_depth": 0,
            "epochs": 40,
            "batch": 16,
            "learning_rate": 5e-3,
            "warm_up": 0.1,
            "calibrator": "temperature",  # The confidence maps of its report are made with one.
        },
    ),
}


def entry_of(name: str) -> Entry:
    """The row of a task."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def task_of(name: str) -> Trainable:
    """The object of a task; its module is imported now."""
    module, _, attribute = entry_of(name).factory.partition(":")
    package = __name__.rpartition(".")[0]
    made: Trainable = getattr(importlib.import_module(f"{package}.{module}"), attribute)()
    return made
