"""Write the files of a finished run: predictions, calibrators, model, report, last its record."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from calibrant.auditing import Audit, audit, learned_entities
from calibrant.calibrators import Calibrator, Temperature
from calibrant.comparison.span_calibrator import SpanCalibrator, entity_words
from calibrant.experiments.outcome import (
    Job,
    Outcome,
    choose_calibrator,
    copy_names,
    measure_outcome,
    noted_warnings,
)
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, circumstances
from calibrant.experiments.run_folder import RunFolder
from calibrant.metrics import Scene
from calibrant.outputs import new_folder
from calibrant.predictions import Predictions
from calibrant.report import write_report
from calibrant.tasks.data import Data, Pictured
from calibrant.tasks.task import TrainedRun

__all__ = ["finish"]

# Pixels for the rank metrics of the report: their bootstrap over all would take minutes.
_PIXELS = 50_000


def finish(outcome: Outcome, job: Job, model: nn.Module, run: RunFolder, bootstrap: int) -> Record:
    """Write everything, the record last: a run that has it is finished.

    Shifted data and examples of no class leave only their numbers.
    """
    recipe, data = outcome.recipe, job.data
    suffix = "parquet" if importlib.util.find_spec("pyarrow") else "npz"
    made = outcome.predictions
    for split, predictions in made.items():
        predictions.write(run.path / f"{split}.{suffix}", overwrite=True)
    run.write_json("labels.json", list(data.labels))
    with new_folder(run.model, overwrite=True) as folder:
        job.task.write_model(recipe, data, model, folder)
    record, fitted, chosen, entities = measure_outcome(outcome, circumstances())
    fitted["temperature"].save(run.temperature, overwrite=True)
    chosen.save(run.calibrator, overwrite=True)
    with noted_warnings() as warned:
        audits = _audits(recipe, data, model, outcome.test, chosen, bootstrap)
        if entities is not None:
            audits = _with_learned_entities(audits, entities, outcome.test, chosen, bootstrap)
        write_report(audits, run.report, overwrite=True)
        choose = functools.partial(choose_calibrator, recipe.calibrator)
        copied = copy_names(recipe, len(outcome.valid)) if outcome.copies is not None else ()
        predicting = model if outcome.signals is None else outcome.signals
        trained = TrainedRun(
            recipe, data, predicting, run, suffix, made, chosen, choose, copied, outcome.copies,
            entities,
        )  # fmt: skip
        more = job.task.finish(trained)
    _write_signals(outcome, run)
    # Shifted data may have been sampled since the outcome was made.
    notes = list(dict.fromkeys([*record.training["notes"], *data.notes, *warned]))
    training = {**record.training, "notes": notes, **more}
    record = replace(record, training=training)
    record.write(run.path, run.metrics.name)
    run.forget_checkpoints()
    return record


def _write_signals(outcome: Outcome, run: RunFolder) -> None:
    """Write what predicting computes signals from, if a calibrator of the run reads them."""
    from calibrant.tasks.feature_signals import FILE, write_signals

    (run.path / FILE).unlink(missing_ok=True)  # Of a run that was cut short.
    files = (
        run.path / name for name in ("calibrator.json", "raw_calibrator.json", "entities.json")
    )
    written = " ".join(path.read_text("utf-8") for path in files if path.exists())
    if outcome.signals is not None and '"distance"' in written:
        write_signals(outcome.signals, run.path)


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
    fitted: SpanCalibrator,
    test: Predictions,
    calibrator: Calibrator,
    bootstrap: int,
) -> dict[str, Audit]:
    """Return the audits with the learned confidence of entities, as ``predict`` gives it."""
    before, after = audits
    if audits[after].entities is None:
        return audits
    words = entity_words(calibrator, test)
    learned = fitted.transform(words).confidence
    view = learned_entities(
        words, calibrator.transform(test), fitted.reduction_, learned, bootstrap=bootstrap
    )
    plain = replace(audits[before], entities=None)
    return {before: plain, after: replace(audits[after], entities=view)}
