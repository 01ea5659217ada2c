"""The runs of the demo: several training runs side by side; what is finished is not run again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from calibrant.errors import CalibrantError
from calibrant.experiments.child_process import child_pool
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, read_record
from calibrant.experiments.run import train
from calibrant.experiments.run_folder import RunFolder

__all__ = ["BASELINE", "VARIANTS", "demo_recipes", "read_runs", "run_path", "train_runs"]

BASELINE = "cross-entropy"
# Name in the tables → method and its options.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    BASELINE: ("cross_entropy", {}),
    "label smoothing": ("label_smoothing", {"alpha": 0.05}),
    "focal": ("focal", {"gamma": 3.0}),
    "MbLS": ("margin_smoothing", {"margin": 6.0}),
    "AvUC": ("avuc", {}),
    "ABS": ("error_regularization", {}),
    "HeadNoise": ("head_noise", {}),
    "HeadNoise+ABS": ("head_noise_error_regularization", {}),
}
_QUICK = (BASELINE, "focal", "HeadNoise")
_COMMON = {"data": "synthetic", "model": "tiny", "dtype": "float32"}
_SCHEDULE = {"epochs": 8, "learning_rate": 3e-3, "warm_up": 0.1}


def demo_recipes(seeds: int = 3, quick: bool = False) -> dict[str, list[Recipe]]:
    """The recipes of each variant, one per seed; ``quick`` has three variants, barely trained.

    >>> {name: len(recipes) for name, recipes in demo_recipes(seeds=2, quick=True).items()}
    {'cross-entropy': 2, 'focal': 2, 'HeadNoise': 2}
    """
    settings = {**_COMMON, **_SCHEDULE, **({"epochs": 2} if quick else {})}
    return {
        name: [
            Recipe.from_dict(
                {**settings, "method": method, "method_options": options, "seed": seed}
            )
            for seed in range(seeds)
        ]
        for name, (method, options) in VARIANTS.items()
        if name in _QUICK or not quick
    }


def train_runs(
    recipes: Mapping[str, Sequence[Recipe]], folder: Path, *, jobs: int, overwrite: bool = False
) -> Iterator[Recipe]:
    """Train what is not finished, ``jobs`` at a time; yields each recipe whose run ends.

    The runs lie in ``folder``, each as :func:`calibrant.experiments.run.train` leaves it. A run of
    another recipe is an error, or with ``overwrite`` replaced.
    """
    # Seed by seed, so that whoever interrupts it has all methods for some seeds.
    waiting = []
    for recipe in sorted((r for each in recipes.values() for r in each), key=lambda r: r.seed):
        run = RunFolder(run_path(folder, recipe))
        if overwrite and (there := run.recipe()) is not None and there != recipe:
            shutil.rmtree(run.path)
        run.check(recipe)
        if not run.finished:
            waiting.append(recipe)
    if min(jobs, len(waiting)) <= 1:
        for recipe in waiting:
            yield _train(recipe, folder)
    else:
        yield from _side_by_side(waiting, folder, min(jobs, len(waiting)))


def read_runs(recipes: Mapping[str, Sequence[Recipe]], folder: Path) -> dict[str, list[Record]]:
    """The records of all runs, by variant and seed."""
    return {
        name: [read_record(RunFolder(run_path(folder, recipe)).metrics) for recipe in each]
        for name, each in recipes.items()
    }


def run_path(folder: Path, recipe: Recipe) -> Path:
    """Where the run of a recipe lies.

    >>> run_path(Path("runs"), demo_recipes()["focal"][1]).as_posix()
    'runs/focal-s1'
    """
    quick = "" if recipe.epochs == _SCHEDULE["epochs"] else "-quick"
    return folder / f"{recipe.method}-s{recipe.seed}{quick}"


def _side_by_side(recipes: Sequence[Recipe], folder: Path, jobs: int) -> Iterator[Recipe]:
    try:
        with child_pool(jobs) as pool:
            for future in as_completed([pool.submit(_train, r, folder) for r in recipes]):
                yield future.result()
    except BrokenProcessPool:
        raise CalibrantError(
            "A training process was killed, perhaps for want of memory: the same command goes on "
            "from there; '--jobs 1' needs the least."
        ) from None


def _train(recipe: Recipe, folder: Path) -> Recipe:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # A model this small is slower on two; and the result is the same.
    try:
        train(recipe, run_path(folder, recipe), device="cpu", bootstrap=0, say=lambda _: None)
    finally:
        torch.set_num_threads(threads)
    return recipe
