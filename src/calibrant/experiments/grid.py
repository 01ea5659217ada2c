"""Run many recipes: cells in parallel on one device, measured by other processes."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from time import monotonic

import torch

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.child_process import child_pool
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.outcome import Outcome, record_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import try_method
from calibrant.experiments.record import Record, circumstances, recorded
from calibrant.experiments.run import default_device, train_side_by_side
from calibrant.experiments.stacked import run_stack, stacks
from calibrant.extras import usable_device
from calibrant.outputs import make_folder
from calibrant.tasks import task_of
from calibrant.tasks.encoders.foreign_models import trusting

__all__ = [
    "cells_of",
    "check_found",
    "check_grid",
    "check_numbers",
    "run_grid",
    "take_turns",
]


def run_grid(
    recipes: Sequence[Recipe],
    folder: str | Path,
    *,
    jobs: int = 1,
    directory: str | None = None,
    device: str | None = None,
    workers: int | None = None,
    stack: int | None = None,
    seconds: float = math.inf,
    trust_remote_code: bool = False,
    keep: bool = False,
    bootstrap: int = 1000,
) -> Iterator[Path]:
    """Run the recipes without a record in ``folder``, ``jobs`` cells at a time; yield new records.

    After ``seconds`` training stops. Runs that are trained by then are measured and kept.

    With ``stack`` > 1 a job trains up to that many cells as one model (see
    :mod:`calibrant.training.stacked`): the default is 10 on CUDA, 1 elsewhere.

    With ``keep`` each run leaves the folder of :func:`~calibrant.experiments.run.train`,
    ``folder/KEY``, whose report has intervals of ``bootstrap`` replicates. The jobs are processes
    then, also on a CPU, and each run resumes from its checkpoint; ``workers``, ``stack`` and
    ``seconds`` have no meaning.
    """
    end = monotonic() + seconds
    check_numbers(jobs=jobs, stack=stack, workers=workers)
    folder = make_folder(folder)
    where = usable_device(device or default_device())
    done = recorded(folder)
    waiting = [recipe for recipe in (r.on(where) for r in recipes) if recipe.key not in done]
    check_grid(waiting, keep)
    check_found(waiting, directory)
    if keep:
        yield from train_side_by_side(
            waiting,
            folder,
            jobs,
            directory=directory,
            device=where,
            bootstrap=bootstrap,
            trust_remote_code=trust_remote_code,
        )
        return
    size = stack or (10 if where.startswith("cuda") else 1)
    together = list(stacks(list(cells_of(waiting)), size))
    workers = workers or max(1, (os.cpu_count() or 2) - 2)
    outcomes = take_turns(together, jobs, directory, where, trust_remote_code)
    try:
        yield from _measured(outcomes, folder, workers, end)
    except (torch.OutOfMemoryError, BrokenProcessPool) as error:
        most = max(map(len, together), default=0)
        raise _described(error, jobs, most, workers) from None


def _measured(
    outcomes: Iterator[Outcome | None], folder: Path, workers: int, end: float
) -> Iterator[Path]:
    """Measure outcomes in processes as they arrive, until a time; yield the records' paths.

    An error is raised at the end, after all trained runs have been measured and kept.
    """
    about = circumstances()
    measuring: list[Future[Record]] = []
    failure: Exception | None = None
    with child_pool(workers) as pool:
        try:
            for outcome in outcomes:
                if outcome is not None:
                    measuring.append(pool.submit(record_of, outcome, about))
                for future in [future for future in measuring if future.done()]:
                    measuring.remove(future)
                    yield future.result().write(folder)
                if monotonic() > end:
                    break
        except Exception as error:  # An error in one cell must not lose what others have trained.
            failure = error
        for future in measuring:
            try:
                record = future.result()
            except Exception as error:  # Nor must an outcome that cannot be measured.
                failure = failure or error
            else:
                yield record.write(folder)
    if failure is not None:
        raise failure


def _described(failure: Exception, jobs: int, most: int, workers: int) -> CalibrantError:
    """Describe a lack of memory with what helps."""
    again = "and run the same command again; it continues from here."
    if isinstance(failure, torch.OutOfMemoryError):
        return InputError(
            f"Out of memory with {jobs} job(s) of up to {most} runs each: use fewer (--jobs, "
            f"--stack) {again}"
        )
    return CalibrantError(
        f"One of {workers} processes that measure was killed, perhaps because memory ran out: use "
        f"fewer (--workers) {again}"
    )


def check_grid(recipes: Sequence[Recipe], keep: bool = False) -> None:
    """Raise an error for a recipe that cannot be run, before any other runs."""
    for recipe in () if keep else recipes:
        if recipe.engine != "lean" or recipe.patience:
            raise InputError(
                "A grid runs the lean engine to the last epoch: leave engine and patience out, or "
                "keep the folder of each run (--keep)."
            )
    for recipe in {(r.method, str(r.method_options)): r for r in recipes}.values():
        try_method(recipe)


def check_found(recipes: Sequence[Recipe], directory: str | None = None) -> None:
    """Raise an error for missing data or a missing encoder, before any other recipe runs."""
    for recipe in {(r.task, r.data, r.model, r.shift, r.head_depth): r for r in recipes}.values():
        task_of(recipe.task).check(recipe, directory)


def check_numbers(**values: int | None) -> None:
    """Raise an error for a number that is given and below 1."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value}.")


def cells_of(recipes: Sequence[Recipe]) -> Iterator[list[Recipe]]:
    """Yield groups of recipes that differ only in the seed, in the order of the recipes."""
    cells: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        cells.setdefault(dataclasses.replace(recipe, seed=0).key, []).append(recipe)
    yield from cells.values()


def take_turns(
    together: Sequence[Sequence[Sequence[Recipe]]],
    jobs: int,
    directory: str | None,
    device: str,
    trust_remote_code: bool = False,
) -> Iterator[Outcome | None]:
    """Train groups of cells, ``jobs`` of them in parallel; yield outcomes as they arrive.

    It also yields None after each step, so that the caller can do other work in between.
    """
    waiting = iter(together)
    running: list[Iterator[Outcome | None]] = []
    while True:
        while len(running) < jobs and (cells := next(waiting, None)) is not None:
            if len(cells) == 1:
                running.append(run_cell(cells[0], directory, device))
            else:
                running.append(run_stack(cells, directory, device))
        if not running:
            return
        for turn in list(running):
            try:
                with trusting(trust_remote_code):
                    outcome = next(turn)
            except StopIteration:
                running.remove(turn)
                continue
            yield outcome
