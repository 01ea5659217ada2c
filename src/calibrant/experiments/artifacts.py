"""What a finished run leaves: predictions, maps, model, report and, last, its record."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from calibrant.auditing import Audit, audit, learned_entities
from calibrant.calibrators import CalibrationWarning, Calibrator, Temperature
from calibrant.comparison.entity_map import EntityMap, entity_words, new_entity_words
from calibrant.experiments.choice import choose_calibrator
from calibrant.experiments.history import History
from calibrant.experiments.measure import LazyPredictions, measure_run
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, circumstances
from calibrant.experiments.run_folder import RunFolder
from calibrant.experiments.small_data import nothing_learned
from calibrant.metrics import Scene
from calibrant.outputs import new_folder
from calibrant.predictions import Predictions
from calibrant.report import write_report
from calibrant.tasks import task_of
from calibrant.tasks.task import Data, Pictured, TrainedRun

__all__ = ["finish"]

# Pixels that sorted metrics of the report look at: their bootstrap over all would take minutes.
_PIXELS = 50_000


def finish(
    recipe: Recipe,
    data: Data,
    model: nn.Module,
    history: History,
    run: RunFolder,
    bootstrap: int,
    shift: Mapping[str, Any],
) -> Record:
    """Write everything, the record last: a run that has it is finished.

    Of ``shift`` (see :meth:`~calibrant.tasks.task.Task.shifted`) and of what belongs to
    no class only the numbers are kept.
    """
    task = task_of(recipe.task)
    suffix = "parquet" if importlib.util.find_spec("pyarrow") else "npz"
    made = {split: data.predict(model, part) for split, part in data.parts.items()}
    for split, predictions in made.items():
        predictions.write(run.path / f"{split}.{suffix}", overwrite=True)
    run.write_json("labels.json", list(data.labels))
    with new_folder(run.model, overwrite=True) as folder:
        task.write_model(recipe, data, model, folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CalibrationWarning)
        Temperature().fit(made["valid"]).save(run.temperature, overwrite=True)
        calibrator = choose_calibrator(recipe.calibrator, made["valid"])
        calibrator.save(run.calibrator, overwrite=True)
        audits = _audits(recipe, data, model, made["test"], calibrator, bootstrap)
        audits = _with_learned_entities(audits, made["valid"], made["test"], calibrator, bootstrap)
        write_report(audits, run.report, overwrite=True)
        results = measure_run(
            made["valid"],
            made["test"],
            recipe.maps,
            ood=made.get("ood"),
            shift=LazyPredictions(shift, lambda part: data.predict(model, part)),
            calibrator=calibrator.name,
            measure=task.measure,
            outside=data.outside(model),
        )
        choose = functools.partial(choose_calibrator, recipe.calibrator)
        trained = TrainedRun(recipe, data, model, run, suffix, made, calibrator, choose)
        more = task.finish(trained)
    notes = list(data.notes)  # Now that all is predicted: they say what of it was a sample.
    notes += sorted({str(w.message) for w in said if w.category is CalibrationWarning})
    history.write(run.log)
    training = {**_training(history, notes), "calibrator": calibrator.name, **more}
    nothing = nothing_learned(recipe, made["test"], training["steps"], made["valid"])
    if nothing is not None:
        training["nothing_learned"] = nothing
    record = Record(recipe, results, training, circumstances())
    record.write(run.path, run.metrics.name)
    run.forget_checkpoints()
    return record


def _audits(
    recipe: Recipe,
    data: Data,
    model: nn.Module,
    test: Predictions,
    calibrator: Calibrator,
    bootstrap: int,
) -> dict[str, Audit]:
    options: dict[str, Any] = {"bootstrap": bootstrap, "provenance": {"recipe": recipe.key}}
    before: Sequence[Scene] = ()
    after: Sequence[Scene] = ()
    if isinstance(data, Pictured):
        before = data.example_scenes(model)
        if isinstance(calibrator, Temperature):
            after = data.example_scenes(model, calibrator.temperature_)
        options["sample"] = _PIXELS
    return {
        "test": audit(test, scenes=before, **options),
        f"test after {calibrator.name}": audit(calibrator.transform(test), scenes=after, **options),
    }


def _with_learned_entities(
    audits: dict[str, Audit],
    valid: Predictions,
    test: Predictions,
    calibrator: Calibrator,
    bootstrap: int,
) -> dict[str, Audit]:
    """The same, with the confidence of entities that predicting gives in place of any other."""
    before, after = audits
    if audits[after].entities is None:
        return audits
    fitted = EntityMap().fit(new_entity_words(calibrator, valid))
    view = learned_entities(
        entity_words(calibrator, test),
        calibrator.transform(test),
        fitted.reduction_,
        fitted.apply,
        bootstrap=bootstrap,
    )
    plain = replace(audits[before], entities=None)
    return {before: plain, after: replace(audits[after], entities=view)}


def _training(history: History, notes: list[str]) -> dict[str, Any]:
    taken = history.best if history.patience else len(history.epochs)
    return {
        "steps": history.epochs[-1].step,
        "epochs": len(history.epochs),
        "epoch_taken": taken,
        "mean_loss": history.epochs[taken - 1].loss,
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 2),
        "notes": notes,
    }
