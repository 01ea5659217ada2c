"""``calibrant bench``: many recipes, each a record; what is done is not done again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "bench",
        help="run a grid of recipes",
        description="Train every recipe of a TOML file ([defaults], [[grid]] tables of lists) and "
        "write a record of each to RUNS. A record that is there is not made again, so a grid that "
        "was killed goes on where it stood.",
    )
    parser.add_argument("recipes", metavar="RECIPE.toml", type=Path, help="the grid")
    parser.add_argument("-o", "--output", metavar="RUNS", type=Path, required=True, help="a folder")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="recipes side by side on the device, with --ray on each node (1)",
    )
    parser.add_argument(
        "--stack",
        type=int,
        help="most recipes of the same data, encoder and seed in one job, trained as one model "
        "(10 on CUDA, 1 elsewhere)",
    )
    parser.add_argument(
        "--workers", type=int, help="processes that measure (cores less two); not with --ray"
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on a Ray cluster: auto (the one that this machine belongs to), host:port, or "
        "local (one for this grid alone)",
    )
    parser.add_argument("--data-dir", metavar="FOLDER", help="where corpora are (CALIBRANT_DATA)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1 (cuda where there is one)")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what has no record yet, telling each that is done."""
    from calibrant.experiments.recipe import read_recipes
    from calibrant.experiments.record import recorded
    from calibrant.progress import Progress

    recipes = read_recipes(args.recipes)
    done = recorded(args.output)
    waiting = [recipe for recipe in recipes if recipe.key not in done]
    print(f"{len(recipes):,} recipes, {len(recipes) - len(waiting):,} of them done.")
    if args.dry_run:
        print(*(recipe.key for recipe in waiting), sep="\n")
        return 0
    if not waiting:
        return 0
    from calibrant.experiments.record import read_record
    from calibrant.experiments.task import entry_of

    with Progress(len(waiting), "runs") as progress:
        for path in _records(waiting, args):
            progress.advance()
            record = read_record(path)
            shown = dict(list(entry_of(record.recipe.task).shown.items())[:2])
            found = record.results["identity"]["test"]
            told = "   ".join(f"{title} {found[name]:.4f}" for name, title in shown.items())
            print(f"{progress.done}/{len(waiting)}   {path.stem}   {told}", file=sys.stderr)
    print(f"Records: {args.output}")
    return 0


def _records(recipes: Sequence[Recipe], args: argparse.Namespace) -> Iterator[Path]:
    common = {
        "jobs": args.jobs, "stack": args.stack, "directory": args.data_dir, "device": args.device,
    }  # fmt: skip
    if args.ray is None:
        from calibrant.experiments.grid import run_grid

        return run_grid(recipes, args.output, workers=args.workers, **common)
    if args.workers is not None:
        raise InputError("--workers is not for --ray, where whoever trains also measures.")
    from calibrant.experiments.cluster import run_on_ray

    return run_on_ray(recipes, args.output, args.ray, **common)
