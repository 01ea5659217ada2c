"""Wrap a fine-tuned model: calibrate it as it is, and leave a run like a trained one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_checks import AUTO, WRAPPED
from calibrant.experiments.record import Record
from calibrant.experiments.run import train
from calibrant.tasks.encoders.fine_tuned import longest_input
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.tasks.reading.catalogue import is_place

__all__ = ["wrap_run"]


def wrap_run(
    model: str,
    task: str,
    data: str,
    folder: str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    unseen_types: str = "error",
    scheme: str = "bio",
    max_length: int | None = None,
    calibrator: str = AUTO,
    trust_remote_code: bool = False,
    **options: Any,
) -> Record:
    """Run a fine-tuned model on validation and test data, calibrate it and write a run.

    ``model`` is a folder or a hub name, ``data`` a corpus with splits that the model was not
    trained on. ``labels`` names the model's classes, or types of entities, as the corpus does.
    Types that the model lacks are an error, or with ``unseen_types="drop"`` no entities.
    ``options`` are those of :func:`~calibrant.experiments.run.train`: the folder is that of a run
    whose engine trains nothing.
    """
    settings: dict[str, Any] = {"scheme": scheme, "calibrator": calibrator}
    if task == "ner" and unseen_types != "error":
        settings["unseen_types"] = unseen_types
    if task != "image":
        with trusting(trust_remote_code):
            settings["max_length"] = max_length or longest_input(model)
    recipe = Recipe.from_dict(
        {
            "task": task,
            "engine": WRAPPED,
            "model": _place(model),
            "data": _place(data),
            "labels": dict(labels or {}),
            "head_depth": 0,
            **settings,
        }
    )
    return train(recipe, folder, trust_remote_code=trust_remote_code, **options)


def _place(name: str) -> str:
    """Return the same name from every working directory."""
    return str(Path(name).resolve()) if is_place(name) else name
