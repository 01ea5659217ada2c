"""Wrap a fine-tuned model: calibrate it without training, and write an ordinary run."""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.experiments.artifacts import finish
from calibrant.experiments.outcome import Job
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_checks import AUTO, WRAPPED
from calibrant.experiments.record import Record
from calibrant.experiments.run import NOTHING_TRAINED, train
from calibrant.experiments.run_folder import RunFolder
from calibrant.loading import load_run
from calibrant.outputs import new_folder
from calibrant.tasks import all_tasks, task_of
from calibrant.tasks.encoders.fine_tuned import (
    FineTuned,
    check_classifier,
    longest_input,
    most_pieces,
)
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.tasks.predictor import Predictor
from calibrant.tasks.reading.catalogue import is_place
from calibrant.tasks.reading.splits import carve
from calibrant.tasks.task import Task

__all__ = ["WrappedModel", "wrap", "wrap_run"]

_LONGEST = 512  # Pieces.
_GIVEN = "given in Python"  # Instead of the name of a corpus.


class WrappedModel:
    """A fine-tuned model with honest confidences; :func:`wrap` returns one.

    ``predictor`` is what ``calibrant.load`` returns for a run, ``record`` has the numbers on test
    data.
    """

    def __init__(self, folder: Path, record: Record, device: str) -> None:
        self.record = record
        self.predictor: Predictor = load_run(folder / "run", device)
        self._run = folder / "run"
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<WrappedModel: {self.predictor!r}>"

    def predict(self, inputs: Any, **options: Any) -> list[Any]:
        """Predict with calibrated confidences; ``options`` are those of the predictor."""
        predictor: Any = self.predictor
        found: list[Any] = predictor.predict(inputs, **options)
        return found

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a run, for ``calibrant.load`` and the command line."""
        with new_folder(folder, overwrite=overwrite) as made:
            kept = shutil.ignore_patterns(".lock")
            shutil.copytree(self._run, made, ignore=kept, dirs_exist_ok=True)


def wrap(
    model: Any,
    tokenizer: Any,
    valid: Any,
    test: Any = None,
    *,
    labels: Mapping[str, str] | None = None,
    unseen_types: str = "error",
    scheme: str = AUTO,
    max_length: int | None = None,
    calibrator: str = AUTO,
    bootstrap: int = 1000,
    seed: int = 0,
) -> WrappedModel:
    """Calibrate a fine-tuned classifier of transformers on validation data.

    ``model`` classifies tokens, texts or images; ``tokenizer`` is its fast tokenizer, or its image
    processor. ``valid`` and ``test`` are pairs of an input and its label: (words, tags), (text,
    label) or (image, label), or tables of the ``datasets`` library. The model must not have been
    trained on them. Without ``test`` a tenth of ``valid`` is held out, drawn by ``seed``. With
    ``labels`` the model's classes, or types of entities, get the names of the data (as
    :func:`wrap_run` explains).

    ``wrap(model, tokenizer, valid).predict(["Anna lives in Paris."])``
    """
    task = _task(model)
    parts, notes = _parts(_sized(valid), None if test is None else _sized(test), seed)
    settings = _settings(task, labels, unseen_types, scheme, calibrator)
    if _reads_pieces(task):
        settings["max_length"] = max_length or min(most_pieces(model.config) or _LONGEST, _LONGEST)
    recipe = Recipe.from_dict({**settings, "model": type(model).__name__, "data": _GIVEN})
    with _evaluating(model):
        plain = copy.copy(model)  # The caller's config keeps its names.
        plain.config = copy.deepcopy(model.config)
        own = (FineTuned.of if _reads_pieces(task) else FineTuned)(plain, tokenizer)
        return _calibrated(Job(task, task.wrap(parts, own, recipe), {}), recipe, notes, bootstrap)


def _calibrated(job: Job, recipe: Recipe, notes: list[str], bootstrap: int) -> WrappedModel:
    """Run the model on the data, and write a run to a folder that goes with its object."""
    network = job.build(recipe).eval()
    folder = Path(tempfile.mkdtemp(prefix="calibrant-wrapped-"))
    run = RunFolder(folder / "run")
    try:
        with run.begun(recipe):
            training = {**NOTHING_TRAINED, "notes": notes}
            outcome = job.outcome(recipe, network, training, lazy=True)
            record = finish(outcome, job, network, run, bootstrap)
        return WrappedModel(folder, record, str(next(network.parameters()).device))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Switch dropout off; afterwards the parts of a model that was in training train again."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def wrap_run(
    model: str,
    task: str,
    data: str,
    folder: str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    unseen_types: str = "error",
    scheme: str = AUTO,
    max_length: int | None = None,
    calibrator: str = AUTO,
    trust_remote_code: bool = False,
    **options: Any,
) -> Record:
    """Run a fine-tuned model on validation and test data, calibrate it and write a run.

    ``model`` is a folder or a hub name, ``data`` a corpus with splits that the model was not
    trained on. ``labels`` names the model's classes, or types of entities, as the corpus does.
    Types that the model lacks are an error; ``unseen_types="drop"`` makes them O. ``scheme="io"``
    joins B- and I- of the model, for models whose B- only separates entities that touch (IOB1);
    ``"auto"`` finds such models by their names of tags, or on the validation data.
    ``options`` are those of :func:`~calibrant.experiments.run.train`, because the folder is a run
    whose engine trains nothing.
    """
    settings = _settings(task_of(task), labels, unseen_types, scheme, calibrator)
    if _reads_pieces(task_of(task)):
        with trusting(trust_remote_code):
            settings["max_length"] = max_length or longest_input(model)
    recipe = Recipe.from_dict({**settings, "model": _place(model), "data": _place(data)})
    return train(recipe, folder, trust_remote_code=trust_remote_code, **options)


def _settings(
    task: Task, labels: Mapping[str, str] | None, unseen_types: str, scheme: str, calibrator: str
) -> dict[str, Any]:
    """Return the settings of a recipe that trains nothing."""
    named = {"task": task.name, "engine": WRAPPED, "calibrator": calibrator}
    of_tags = {"unseen_types": unseen_types, "scheme": scheme}
    own = {name: value for name, value in of_tags.items() if name in task.own_settings}
    return {**named, **own, "labels": labels or {}, "head_depth": 0}


def _reads_pieces(task: Task) -> bool:
    """Return whether the models of a task read word pieces."""
    return "max_length" in task.own_settings


def _place(name: str) -> str:
    """Return a name that is valid from every working directory."""
    return str(Path(name).resolve()) if is_place(name) else name


def _task(model: Any) -> Task:
    kind = re.search(r"For(Token|Sequence|Image)Classification$", type(model).__name__)
    if kind is None or not hasattr(model, "config"):
        raise InputError(
            "wrap takes a classifier of transformers, such as BertForTokenClassification, "
            f"…ForSequenceClassification or …ForImageClassification, got {type(model).__name__}."
        )
    check_classifier(model, kind[1].lower(), type(model).__name__)
    return next(task for task in all_tasks().values() if task.wraps == kind[1].lower())


def _sized(examples: Any) -> Any:
    """Return examples with a length; a generator becomes a list."""
    return examples if hasattr(examples, "__len__") else list(examples)


def _parts(valid: Any, test: Any, seed: int) -> tuple[dict[str, Any], list[str]]:
    if test is not None:
        return {"dev": valid, "test": test}, []
    rows = list(range(len(valid)))
    kept, held = carve(rows, seed, "Validation data")
    note = f"No test data: {len(held):,} validation examples taken (seed {seed})."
    if hasattr(valid, "select"):  # A table of the datasets library.
        return {"dev": valid.select(kept), "test": valid.select(held)}, [note]
    return {"dev": [valid[row] for row in kept], "test": [valid[row] for row in held]}, [note]
