"""``calibrant train``: from a corpus to a calibrated model, its predictions and a report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.options import add_json
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.experiments.record import Record

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "train",
        help="train a model with honest confidences",
        description="Train a classifier of words, texts, images or pixels. RUN gets the model, its "
        "validation and test predictions, a fitted calibrator, metrics and a report. The same "
        "command continues an interrupted run from its last checkpoint, to the same result. "
        "Defaults are in brackets; they depend on the task.",
    )
    parser.add_argument(
        "-o", "--output", metavar="RUN", type=Path, required=True, help="write to this folder"
    )
    add_json(parser)
    parser.set_defaults(run=run)
    parser.later = _add_options


def _add_options(parser: argparse.ArgumentParser) -> None:
    from calibrant.cli.train_options import add_options

    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Train, or read finished runs, and print the numbers."""
    from calibrant.extras import require

    require("torch", "transformers", "Training")
    from calibrant.cli.train_options import recipe_from
    from calibrant.experiments.run import default_device, train

    default_epochs = args.epochs is None
    options = {
        "directory": args.data_dir, "device": args.device or default_device(),
        "save_every": args.save_every, "bootstrap": args.bootstrap,
        "tensorboard": args.tensorboard, "trust_remote_code": args.trust_remote_code,
    }  # fmt: skip
    recipes = {
        folder: recipe_from(args, seed, options["device"]) for seed, folder in _folders(args)
    }
    there = {folder: _is_finished(folder, recipes[folder], default_epochs) for folder in recipes}
    records = {}
    for folder, recipe in recipes.items():
        if len(recipes) > 1 and _is_first():
            print(printable(f"Seed {recipe.seed}: {folder}"), file=sys.stderr)
        records[folder] = train(recipe, folder, default_epochs=default_epochs, **options)
    if _is_first():
        _print(records, there, args.json)
    if "RANK" in os.environ:  # torchrun's
        from calibrant.training.processes import leave_processes

        leave_processes()
    return 0


def _folders(args: argparse.Namespace) -> list[tuple[int, Path]]:
    """Return each seed with its folder: RUN itself for one seed, RUN/seed-N for several."""
    from calibrant.experiments.run_folder import RunFolder

    seeds: list[int] = args.seed or [0]
    if len(seeds) == 1:
        return [(seeds[0], args.output)]
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seed takes different seeds, got {seeds}.")
    if RunFolder(args.output).recipe() is not None:
        raise InputError(f"{args.output} is the run of one seed: name a new folder for several.")
    return [(seed, args.output / f"seed-{seed}") for seed in seeds]


def _is_finished(folder: Path, recipe: Recipe, any_epochs: bool) -> bool:
    """Check a folder before the work starts; return whether its run is finished."""
    from calibrant.experiments.run_folder import RunFolder

    check_apart(folder, (recipe.data, recipe.model, *recipe.shift))
    RunFolder(folder).check(recipe, any_epochs)
    return RunFolder(folder).finished


def check_apart(folder: Path, names: Iterable[str]) -> None:
    """Refuse data, models and shifted data that are in the folder that the run writes."""
    from calibrant.tasks.reading.catalogue import is_place

    for place in (Path(name).resolve() for name in names if is_place(name)):
        if folder.resolve() in (place, *place.parents):
            raise InputError(
                f"{place} is an input of the run and is inside its folder; name another folder."
            )


def _is_first() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


def _print(records: Mapping[Path, Record], there: Mapping[Path, bool], as_json: bool) -> None:
    from calibrant.cli.run_numbers import content, content_over_seeds, show, show_over_seeds

    folder, record = next(iter(records.items()))
    several = len(records) > 1
    if as_json:
        one = content(record, folder, there[folder])
        print(document("train", content_over_seeds(records, there) if several else one))
        return
    for finished in (path for path in records if there[path]):
        print(f"{printable(str(finished))} is finished; it is not trained again.")
    print(show_over_seeds(records) if several else show(record, folder))
