"""``calibrant bench``: train many recipes and write a record of each."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.old_options import printed_renames
from calibrant.cli.options import add_data_dir, add_device, add_set, add_trust, parse_settings
from calibrant.errors import InputError, MissingExtraError, printable

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "bench",
        help="train a grid of recipes",
        description="Train every recipe of the TOML files ([defaults], [[grid]] tables of lists) "
        "and write a record of each to RUNS. Existing records are kept, so the same command "
        "continues an interrupted grid.",
    )
    parser.add_argument(
        "recipes", metavar="RECIPE.toml", type=Path, nargs="+", help="files of grids"
    )
    parser.add_argument(
        "-o", "--output", metavar="RUNS", type=Path, required=True, help="write to this folder"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="recipes to train at the same time on the device, or with --ray on each node (1)",
    )
    parser.add_argument(
        "--stack",
        type=int,
        help="train up to this many recipes with the same data, encoder and seed as one model "
        "(10 on CUDA, 1 elsewhere)",
    )
    parser.add_argument(
        "--workers", type=int, help="processes that measure; not with --ray (cores minus two)"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep each run as 'calibrant train' leaves it, with model, predictions and report: "
        "RUNS/KEY; the jobs are processes then, also on a CPU",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on a Ray cluster: auto (on this machine), host:port, or local (a new one)",
    )
    add_data_dir(parser)
    add_device(parser)
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=float,
        help="stop after this time, keep finished records, and exit with code 3 if recipes are "
        "left; not with --ray",
    )
    add_trust(parser)
    add_set(parser, "change a setting of all recipes, such as --set epochs=1")
    parser.add_argument("--dry-run", action="store_true", help="only list the recipes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train the recipes without a record and print a line for each."""
    from calibrant.charts.numbers import counted
    from calibrant.experiments.recipe_file import read_recipes, read_title
    from calibrant.experiments.record import recorded, write_titles

    over = parse_settings(args.settings)
    with printed_renames("bench"):
        read = [recipe for path in args.recipes for recipe in read_recipes(path, over)]
    found = {recipe.key: recipe for recipe in _concrete(read, args)}
    done, recipes = recorded(args.output), list(found.values())
    waiting = [recipe for recipe in recipes if recipe.key not in done]
    done_before = (
        f"{counted(len(recipes), 'recipe')}, {len(recipes) - len(waiting):,} of them done."
    )
    if args.dry_run or not waiting:
        print(done_before, *(printable(recipe.key) for recipe in waiting), sep="\n")
        if not waiting:
            _suggest(args)
        return 0
    titles = [read_title(path) for path in args.recipes]
    write_titles(args.output, titles)
    print(*filter(None, titles), sep="\n", end="\n" if any(titles) else "", file=sys.stderr)
    print(done_before, file=sys.stderr)  # Standard output is for the results.
    left = _run(waiting, args)
    _suggest(args)
    if left:
        rest = "1 recipe is" if left == 1 else f"{left:,} recipes are"
        print(f"Time is up, and {rest} left: the same command continues from here.")
    return 3 if left else 0


def _suggest(args: argparse.Namespace) -> None:
    records = printable(str(args.output))
    print(f"Records: {records}\nTry: calibrant report {records} -o report")


def _concrete(recipes: Sequence[Recipe], args: argparse.Namespace) -> list[Recipe]:
    """Return the recipes with the dtype of the device; torch is imported only if necessary."""
    device = args.device
    if device is None and any(recipe.dtype == "auto" for recipe in recipes):
        device = _default_device(args.dry_run)
    return [recipe.on(device or "cpu") for recipe in recipes]


def _default_device(dry_run: bool) -> str:
    """Return the device of this machine; a list of recipes does not need torch."""
    from calibrant.extras import require

    try:
        require("torch", "transformers", "A recipe without a dtype")
    except MissingExtraError:
        if dry_run:
            return "cpu"
        raise
    from calibrant.experiments.run import default_device

    return default_device()


def _run(waiting: Sequence[Recipe], args: argparse.Namespace) -> int:
    """Train, and print a line for each record; return how many recipes are left."""
    from calibrant.extras import require
    from calibrant.progress import Progress

    for module in ("torch", "transformers"):
        require(module, "transformers", "Training a grid")
    with Progress(len(waiting), "runs") as progress:
        for path in _records(waiting, args):
            progress.advance()
            line = f"{progress.done}/{len(waiting)}   {_summary(path)}"
            print(printable(line), file=sys.stderr)
        return len(waiting) - progress.done


def _summary(path: Path) -> str:
    """Return the key of a record, and its first numbers on the test split."""
    from calibrant.experiments.record import read_record
    from calibrant.metrics import METRICS
    from calibrant.tasks import task_of

    record = read_record(path)
    test = record.results["identity"]["test"]
    shown = task_of(record.recipe.task).shown[:2]
    return "   ".join(
        [record.recipe.key, *(f"{METRICS[name].short} {test[name]:.4f}" for name in shown)]
    )


def _records(recipes: Sequence[Recipe], args: argparse.Namespace) -> Iterator[Path]:
    common = {
        "jobs": args.jobs, "stack": args.stack, "directory": args.data_dir, "device": args.device,
        "trust_remote_code": args.trust_remote_code,
    }  # fmt: skip
    if args.time_limit is not None and not args.time_limit > 0:
        raise InputError(f"--time-limit is a number of seconds above 0, got {args.time_limit:g}.")
    if args.keep:
        _check_kept(args)
        common["keep"] = True
    if args.ray is None:
        from calibrant.experiments.grid import run_grid

        seconds = math.inf if args.time_limit is None else args.time_limit
        return run_grid(recipes, args.output, workers=args.workers, seconds=seconds, **common)
    if args.time_limit is not None:
        raise InputError("--time-limit is not for --ray: a cluster has its own limits.")
    if args.workers is not None:
        raise InputError("--workers is not for --ray: there the process that trains also measures.")
    from calibrant.experiments.ray_grid import run_on_ray

    return run_on_ray(recipes, args.output, args.ray, **common)


def _check_kept(args: argparse.Namespace) -> None:
    """Refuse options that a grid of kept runs does not use."""
    for option in ("ray", "stack", "workers", "time_limit"):
        if getattr(args, option) is not None:
            raise InputError(
                f"--{option.replace('_', '-')} is not for --keep, where each run is a process "
                "with its own checkpoints."
            )
