"""Train one recipe into a folder, or several side by side; a killed run resumes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.artifacts import finish
from calibrant.experiments.child_process import child_pool
from calibrant.experiments.lean_engine import RunWatch, train_lean
from calibrant.experiments.outcome import Job
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import try_method
from calibrant.experiments.record import Record, read_record
from calibrant.experiments.reporter import Reporter, check_tensorboard, reporting
from calibrant.experiments.run_folder import RunFolder
from calibrant.experiments.small_data import enough_epochs
from calibrant.extras import usable_device
from calibrant.metrics.bootstrap import check_bootstrap
from calibrant.tasks.data import Data
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.training.processes import join_processes, wait_for_all

__all__ = [
    "NOTHING_TRAINED",
    "default_device",
    "explain_resource_errors",
    "train",
    "train_side_by_side",
]

# What a record says of a fine-tuned model that is taken as it is.
NOTHING_TRAINED: Mapping[str, Any] = {"steps": 0, "seconds": 0.0, "notes": ()}
_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_FULL = 1 << 16  # With fewer free bytes a disk counts as full.


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    directory: str | None = None,
    device: str | None = None,
    save_every: float = 300.0,
    bootstrap: int = 1000,
    tensorboard: bool = False,
    say: Callable[[str], None] | None = None,
    trust_remote_code: bool = False,
    default_epochs: bool = False,
) -> Record:
    """Train ``recipe`` into ``folder`` and return its record; a finished run is only read.

    The result does not depend on how often the run was interrupted: a checkpoint holds weights,
    optimizer, random streams and the position in the data. It is replaced atomically after each
    epoch and every ``save_every`` seconds (with the Trainer engine, after each epoch). On a CPU it
    is the same to the bit. ``directory`` is where corpora are found by name. With ``tensorboard``
    loss, F1, ECE and NLL of every epoch are written to ``folder/tensorboard`` too.

    Under torchrun both engines run in several processes, one device each, which share ``batch``.
    ``default_epochs`` says that the user did not choose the number of epochs: a started run keeps
    its number, and little data gets more
    (:func:`~calibrant.experiments.small_data.enough_epochs`).
    An encoder that comes with its own code is refused unless ``trust_remote_code`` lets it run.
    The lean engine trains in float32 or bfloat16, the Trainer engine also in float16 on CUDA. The
    engine "wrapped" trains nothing: the model is a fine-tuned classifier with its own head.
    """
    run, device = RunFolder(Path(folder)), device or default_device()
    recipe = recipe.on(device)
    run.check(recipe, default_epochs)
    if run.finished:
        run.clear()
        return read_record(run.metrics)
    _check_settings(save_every, bootstrap)
    if tensorboard:
        check_tensorboard()  # Before the work, not after it.
    device = _ready(recipe, device)
    with trusting(trust_remote_code):
        job = Job.of(recipe, directory)  # Now, and not after hours of training.
        requested = recipe
        if default_epochs and not recipe.wrapped:
            recipe = _with_epochs(recipe, job.data, run, device)
        model = job.build(recipe)
    first = _first_process()
    with (
        explain_resource_errors(recipe, run.path),
        run.begun(recipe) if first else contextlib.nullcontext(),
        reporting(
            recipe.epochs, run.path, tensorboard=tensorboard, say=say, shown=first
        ) as reporter,
    ):
        for note in (*job.data.notes, *_describe_epochs(requested, recipe)):
            reporter.line(note)
        training = _train(recipe, job, model, run, device, save_every, reporter)
        reporter.wipe()
        record = Record(recipe, {}, {}, {})
        if first:
            outcome = job.outcome(recipe, model, training, lazy=True)
            record = finish(outcome, job, model, run, bootstrap)
        wait_for_all()  # All wait until the first process is done.
        return record


def _train(
    recipe: Recipe,
    job: Job,
    model: nn.Module,
    run: RunFolder,
    device: str,
    save_every: float,
    reporter: Reporter,
) -> dict[str, Any]:
    """Train with the recipe's engine; return what a record says of the training."""
    if recipe.wrapped:
        model.to(device).eval()
        return dict(NOTHING_TRAINED)
    if recipe.engine == "lean":
        watch = RunWatch(recipe, job.data, run, save_every, reporter)
        return train_lean(recipe, job, model, device, watch)
    from calibrant.experiments.trainer_engine import train_with_trainer

    return train_with_trainer(recipe, job.data, model, run, device, reporter)


def train_side_by_side(
    recipes: Sequence[Recipe], folder: Path, jobs: int, *, device: str, **options: Any
) -> Iterator[Path]:
    """Train each recipe into ``folder/KEY``, ``jobs`` at a time; yield its record's path.

    ``options`` are those of :func:`train`. Each process has one thread on a CPU, so the result does
    not depend on ``jobs``.
    """
    options = {**options, "device": device}
    if min(jobs, len(recipes)) <= 1:
        for recipe in recipes:
            yield _train_quietly(recipe, folder, options)
        return
    try:
        with child_pool(min(jobs, len(recipes))) as pool:
            futures = [pool.submit(_train_quietly, recipe, folder, options) for recipe in recipes]
            for future in as_completed(futures):
                yield future.result()
    except BrokenProcessPool:
        raise CalibrantError(
            "A training process was killed, perhaps because memory ran out: the same command "
            "continues from there; --jobs 1 needs the least."
        ) from None


def _train_quietly(recipe: Recipe, folder: Path, options: Mapping[str, Any]) -> Path:
    run, threads = RunFolder(folder / recipe.key), torch.get_num_threads()
    if options["device"] == "cpu":
        torch.set_num_threads(1)
    try:
        train(recipe, run.path, say=lambda _: None, **options)
    finally:
        torch.set_num_threads(threads)
    return run.metrics


def default_device() -> str:
    """Return "cuda" if there is a CUDA device, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def _with_epochs(recipe: Recipe, data: Data, run: RunFolder, device: str) -> Recipe:
    """Return the recipe with the epochs of the started run, or with enough for the data."""
    there = run.recipe()
    if there is not None and there == replace(recipe, epochs=there.epochs):
        return there
    return enough_epochs(recipe, data, device)


def _describe_epochs(requested: Recipe, taken: Recipe) -> list[str]:
    if taken.epochs == requested.epochs:
        return []
    return [
        f"Little data: {taken.epochs} epochs instead of {requested.epochs}, for enough steps; "
        "--epochs overrides this."
    ]


def _ready(recipe: Recipe, device: str) -> str:
    """Check that the recipe can be trained on the device; return that of this process."""
    if recipe.dtype == "float16" and (recipe.engine == "lean" or device == "cpu"):
        raise InputError("float16 needs loss scaling: use engine 'trainer' on CUDA, or bfloat16.")
    usable_device(device)
    try_method(recipe)
    if recipe.engine == "lean" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return join_processes(device)
    return device


def _check_settings(save_every: float, bootstrap: int) -> None:
    if not save_every >= 0:
        raise InputError(f"Checkpoints are written every 0 seconds or more, got {save_every}.")
    if bootstrap:  # 0: no intervals.
        check_bootstrap(bootstrap)


def _first_process() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


@contextlib.contextmanager
def explain_resource_errors(recipe: Recipe, folder: Path) -> Iterator[None]:
    """Raise :class:`InputError` if the work inside runs out of memory or disk space."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        if _is_memory(error):
            raise InputError(
                f"Out of memory with a batch of {recipe.batch} in {recipe.accumulate} part(s): run "
                f"it in more parts (--accumulate {2 * recipe.accumulate}), which gives the same "
                "result, or take a smaller --batch."
            ) from None
        if _is_space(error, folder):
            raise InputError(
                f"{folder} cannot be written: the disk is full. Make room, and the same command "
                "continues from the last checkpoint."
            ) from None
        raise


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _NO_MEMORY)


def _is_space(error: BaseException | None, folder: Path) -> bool:
    """Return whether the disk is full, by an error in the chain or by its free space."""
    if folder.is_dir() and shutil.disk_usage(folder).free < _FULL:
        return True
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error) for words in _NO_SPACE):  # As other languages' writers say it.
            return True
        error = error.__cause__ or error.__context__
    return False
