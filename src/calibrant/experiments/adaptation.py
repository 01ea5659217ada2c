"""Adapt a finished run to new data without labels: a copy of it with corrected confidences."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from calibrant.adapting import Adaptation, adapt
from calibrant.calibrators import load_calibrator
from calibrant.corruptions import parse_corruption
from calibrant.errors import InputError
from calibrant.experiments.evaluation import requested_corruptions
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import default_device
from calibrant.experiments.run_folder import RunFolder
from calibrant.extras import usable_device
from calibrant.json_values import json_values
from calibrant.output_checks import check_folder
from calibrant.outputs import new_folder
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.tasks.task import AdaptedRun, EvaluationTarget, Task

__all__ = ["adapt_run", "check_adapted_folder", "finished_run"]

# Of the copies, unless they are named: kinds of text, or every second kind of images.
_OF_TEXT = ("typos", "ocr", "dropped-characters", "swapped-characters", "dropped-words")
_STRENGTHS = (1, 3, 5)
_RAW = "raw_"  # What predicts words of raw text, where these are not the corpus'.
_REPORT = "adapted.json"


def adapt_run(
    run: str | Path,
    unlabelled: Predictions,
    output: str | Path,
    *,
    raw: bool = False,
    method: str = "auto",
    corrupt: Sequence[str] = (),
    level: float = 0.95,
    bootstrap: int = 400,
    seed: int = 0,
    directory: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    trust_remote_code: bool = False,
) -> Adaptation:
    """Write a copy of a run whose calibrator is corrected for new data; return what was found.

    ``unlabelled`` is raw predictions of the run's model (``load_run(run).raw_predictions(texts)``),
    ``raw`` whether its words were cut from raw text. For the method "set-level", which is also
    "auto", the run's labelled test split is predicted as it is and corrupted: by the kinds that
    ``corrupt`` names, or by five kinds at the strengths 1, 3 and 5.
    """
    folder, recipe = finished_run(run)
    check_adapted_folder(folder.path, Path(output), overwrite)
    task = task_of(recipe.task)
    names = requested_corruptions(corrupt, task.corruptions) or _usual_corruptions(task)
    raw = raw and (folder.path / f"{_RAW}calibrator.json").exists()
    prefix = _RAW if raw else ""
    calibrator = load_calibrator(folder.path / f"{prefix}calibrator.json")
    valid = Predictions.read(folder.predictions(f"{prefix}valid"))
    copies: dict[str, Predictions] = {}
    if method in ("auto", "set-level"):
        device = usable_device(device or default_device())
        target = EvaluationTarget(folder, recipe, recipe.data, directory, device, True)
        with trusting(trust_remote_code):
            examples = task.examples(target)
        for name in (None, *names):
            corruption = None if name is None else parse_corruption(name, task.corruptions)
            copies[name or "test split"] = examples.predict(corruption, seed)
            if progress is not None:
                progress(1)
    options = {"method": method, "level": level, "bootstrap": bootstrap, "seed": seed}
    found = adapt(calibrator, valid, unlabelled, copies=copies, **options)  # type: ignore[arg-type]
    with new_folder(output, overwrite=overwrite) as unfinished:
        shutil.copytree(
            folder.path, unfinished, ignore=shutil.ignore_patterns(".lock"), dirs_exist_ok=True
        )
        found.calibrator.save(unfinished / f"{prefix}calibrator.json", overwrite=True)
        adapted = AdaptedRun(unfinished, raw, found.calibrator, valid, unlabelled, copies, level)
        if found.changed:
            found = replace(found, entities=task.finish_adapted(adapted))
        RunFolder(unfinished).write_json(_REPORT, json_values({**found.to_dict(), "run": str(run)}))
    return found


def check_adapted_folder(run: Path, output: Path, overwrite: bool) -> None:
    """Refuse a place that is not free, or that does not hold a run."""
    places = output.resolve(), run.resolve()
    if places[0] == places[1] or places[0] in places[1].parents or places[1] in places[0].parents:
        raise InputError(f"{output}: the run {run} is read here; name another folder.")
    check_folder(output, overwrite)
    if output.is_dir() and any(output.iterdir()) and not (output / "recipe.json").exists():
        raise InputError(f"{output} is not a run, so it is not replaced; name another folder.")


def finished_run(run: str | Path) -> tuple[RunFolder, Recipe]:
    """Return the folder of a finished run, and its recipe."""
    folder = RunFolder(Path(run))
    recipe = folder.recipe()
    if recipe is None or not folder.finished:
        raise InputError(f"{run} is not the folder of a finished 'calibrant train'.")
    return folder, recipe


def _usual_corruptions(task: Task) -> list[str]:
    kinds = [kind for kind in _OF_TEXT if kind in task.corruptions]
    kinds = kinds or list(task.corruptions)[::2][: len(_OF_TEXT)]
    return [f"{kind}-{strength}" for kind in kinds for strength in _STRENGTHS]
