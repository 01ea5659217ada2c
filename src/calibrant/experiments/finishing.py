"""What a finished run leaves: predictions, temperature, model, report and, last, its record."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from calibrant.audit import audit
from calibrant.calibrators import CalibrationWarning, Temperature
from calibrant.experiments.history import History
from calibrant.experiments.measure import measure_run
from calibrant.experiments.preparation import Prepared
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, circumstances
from calibrant.experiments.run_folder import RunFolder
from calibrant.outputs import new_file
from calibrant.prediction.model_folder import write_model
from calibrant.predictions import Predictions
from calibrant.report import write_report
from calibrant.tasks.pieces import Pieces
from calibrant.training.prediction import predict_words

__all__ = ["finish"]


def finish(
    recipe: Recipe,
    data: Prepared,
    model: nn.Module,
    history: History,
    run: RunFolder,
    bootstrap: int,
    shift: Mapping[str, Pieces],
) -> Record:
    """Write everything, the record last: a run that has it is finished.

    Of ``shift`` (see :func:`~calibrant.experiments.shift.shifted_tests`) only the numbers are kept.
    """
    suffix = "parquet" if importlib.util.find_spec("pyarrow") else "npz"
    made = {}
    for split, part in (("valid", data.dev), ("test", data.test), ("ood", data.ood)):
        if part is not None:
            made[split] = predict_words(model, part, data.labels, padding=data.padding)
            made[split].write(run.path / f"{split}.{suffix}", overwrite=True)
    shifted = {
        name: predict_words(model, part, data.labels, padding=data.padding)
        for name, part in shift.items()
    }
    run.write_json("labels.json", list(data.labels))
    with run.new_folder(run.model) as folder:
        write_model(
            model,
            data.tokenizer,
            folder,
            width=recipe.head_width,
            depth=recipe.head_depth,
            activation=recipe.head_activation,
        )
    notes = list(data.corpus.notes)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CalibrationWarning)
        temperature = Temperature().fit(made["valid"])
        temperature.save(run.temperature, overwrite=True)
        _write_report(run, recipe, made["test"], temperature, bootstrap)
        results = measure_run(made["valid"], made["test"], ood=made.get("ood"), shift=shifted)
    notes += sorted({str(w.message) for w in said if w.category is CalibrationWarning})
    history.write(run.log)
    record = Record(recipe, results, _training(history, notes), circumstances())
    record.write(run.path, run.metrics.name)
    run.forget_checkpoints()
    return record


def _write_report(
    run: RunFolder, recipe: Recipe, test: Predictions, temperature: Temperature, bootstrap: int
) -> None:
    options: dict[str, Any] = {"bootstrap": bootstrap, "provenance": {"recipe": recipe.key}}
    audits = {
        "test": audit(test, **options),
        "test after temperature scaling": audit(temperature.transform(test), **options),
    }
    with new_file(run.report, overwrite=True) as unfinished:
        write_report(unfinished, audits, overwrite=True)


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
