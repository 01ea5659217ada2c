"""Evaluate a finished run on labelled data, unchanged and corrupted at growing strength."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from calibrant.calibrators import Calibrator, load_calibrator
from calibrant.calibrators.correction import CORRECTIONS
from calibrant.corruptions import STRENGTHS, parse_corruption
from calibrant.errors import InputError, unknown_name
from calibrant.experiments.measure import LazyPredictions, measure_run
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_record
from calibrant.experiments.run import default_device
from calibrant.experiments.run_folder import RunFolder
from calibrant.extras import usable_device
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.tasks.task import EvaluationTarget

__all__ = ["LeftOutWarning", "evaluate", "requested_corruptions"]


class LeftOutWarning(UserWarning):
    """Says which labelled examples do not count, because the run does not know their labels."""


def evaluate(
    run: str | Path,
    data: str | None = None,
    *,
    corrupt: Sequence[str] = (),
    seed: int = 0,
    directory: str | None = None,
    device: str | None = None,
    progress: Callable[[int], None] | None = None,
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """Measure a run on ``data``: ``{calibrator: {"test": …, "shift": {"typos-1": …}}}``.

    ``data`` is a labelled file, a folder of classes without splits, or a corpus by name or folder,
    which is evaluated on its test split. The default, and the data that the run was trained on,
    mean the test split of the run. ``corrupt`` names kinds, at all five strengths, or one strength
    each (``jpeg-3``). The calibrators are identity and temperature, fitted on the run's validation
    split, and last the run's own, which ``calibrant adapt`` may have corrected. With seed 0 the
    corruptions are those of a recipe's ``shift``. A model with its own code needs
    ``trust_remote_code``.
    """
    folder = RunFolder(Path(run))
    recipe = folder.recipe()
    if recipe is None or not folder.finished:
        raise InputError(f"{run} is not the folder of a finished 'calibrant train'.")
    task = task_of(recipe.task)
    names = requested_corruptions(corrupt, task.corruptions)
    named = recipe.data if data is None else str(data)
    device = usable_device(device or default_device())
    own = _is_own(named, recipe)
    with trusting(trust_remote_code):
        target = EvaluationTarget(folder, recipe, named, directory, device, own)
        examples = task.examples(target)

    def predict(corruption: tuple[str, int] | None) -> Predictions:
        found = examples.predict(corruption, seed)
        if progress is not None:
            progress(1)
        return found

    for note in examples.notes:
        warnings.warn(note, LeftOutWarning, stacklevel=2)
    split, kind = examples.validation(read_record(folder.metrics).training)
    chosen, fitted = _own_calibrator(folder, split, kind)
    results = measure_run(
        Predictions.read(folder.predictions(split)),
        predict(None),
        shift=LazyPredictions(
            {name: parse_corruption(name, task.corruptions) for name in names}, predict
        ),
        calibrator=chosen,
        measure=task.measure,
        fitted=fitted,
        entities=examples.entities(),
    )
    return {**{name: results[name] for name in results if name != chosen}, chosen: results[chosen]}


def _own_calibrator(folder: RunFolder, split: str, kind: str) -> tuple[str, dict[str, Calibrator]]:
    """Return the calibrator that ``predict`` uses, under its name; the first version had none.

    One that was corrected for new data is another than validation gives, and so is its name.
    """
    path = folder.path / ("calibrator.json" if split == "valid" else "raw_calibrator.json")
    if not path.exists():
        return kind, {}
    found = load_calibrator(path)
    name = f"adapted {kind}" if CORRECTIONS & found.learned().keys() else kind
    return name, {name: found}


def _is_own(data: str, recipe: Recipe) -> bool:
    """Whether a run was trained on ``data``; then only the test split is new to it.

    A run that was trained on ``pets`` found it in some data directory. A folder of that name, or
    ``pets.npz``, may be the same data, so it does not count as new.
    """
    if Path(data).resolve() == Path(recipe.data).resolve():
        return True
    return recipe.data == Path(data).name.removesuffix(".npz")


def requested_corruptions(names: Sequence[str], kinds: Collection[str]) -> list[str]:
    """Return each kind at every strength, and each KIND-STRENGTH unchanged, once.

    >>> requested_corruptions(["ocr-2", "typos"], ["ocr", "typos"])
    ['ocr-2', 'typos-1', 'typos-2', 'typos-3', 'typos-4', 'typos-5']
    """
    requested: dict[str, None] = {}
    for name in names:
        if name in kinds:
            requested.update(dict.fromkeys(f"{name}-{strength}" for strength in STRENGTHS))
        elif parse_corruption(name, kinds) is not None:
            requested[name] = None
        else:
            kind = re.sub(r"-\d+$", "", name)
            raise unknown_name("corruption", kind, kinds, "'calibrant list corruptions' shows all.")
    return list(requested)
