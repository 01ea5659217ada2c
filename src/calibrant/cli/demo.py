"""``calibrant demo``: run the packaged recipe with several seeds, and report."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.study import Study

__all__ = ["add_parser", "demo_recipes", "run", "write_texts"]

_WIDTH = 100  # Longer lines are hard to read, however wide the terminal is.
_REPLICATES = 200  # For intervals: enough to see their width, a fifth of the usual time.
_PAGE = "report.html"
_TEXTS = "texts.txt"  # What the demo suggests to review.
_QUICK = ("cross_entropy", "focal", "head_noise")
_SHOWN = ("results", "differences", "shift")  # Tables to print; the report has all.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "demo",
        help="compare eight training methods on embedded data, in minutes on a CPU",
        description="Train a small tagger of entities on an embedded corpus with eight methods and "
        "several seeds. Print F1, ECE and APCR with and without temperature scaling, the "
        "differences from the baseline, and the numbers on another domain; write the report. An "
        "interrupted demo continues with the same command; finished runs are not trained again.",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("out/demo"),
        help="write to this folder (out/demo)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing report; runs are kept"
    )
    parser.add_argument("--seeds", type=int, help="number of runs of each method (3)")
    parser.add_argument(
        "--jobs", type=int, help="trainings at the same time (one per CPU, at most 8)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="train three methods with one seed for two epochs: a smoke test, not a result",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train, report, print."""
    from calibrant.extras import require
    from calibrant.outputs import check_writable, make_folder

    seeds = args.seeds if args.seeds is not None else 1 if args.quick else 3
    jobs = args.jobs if args.jobs is not None else min(8, os.cpu_count() or 1)
    for option, value in (("--seeds", seeds), ("--jobs", jobs)):
        if value < 1:
            raise InputError(f"{option} is at least 1, got {value}.")
    for module in ("torch", "transformers", "matplotlib"):
        require(module, "demo", "The demo")
    check_writable(make_folder(args.output) / _PAGE, overwrite=args.overwrite)
    from calibrant.study import build_study, read_titles, write_study

    recipes, runs = demo_recipes(seeds, args.quick), args.output / "runs"
    before = _train(recipes, runs, jobs)
    study = build_study(_records(recipes, runs), title=read_titles([runs]))
    write_study(args.output, study, overwrite=args.overwrite, page=_PAGE)
    write_texts(args.output / _TEXTS)
    if before:
        print(f"{before} of {len(recipes)} were finished before.\n")
    _show(study, seeds)
    _suggest(args.output, runs / recipes[0].key)
    return 0


def demo_recipes(seeds: int = 3, quick: bool = False) -> list[Recipe]:
    """Return the packaged recipes, seed by seed; ``quick``: three methods, barely trained.

    >>> [recipe.method for recipe in demo_recipes(seeds=1, quick=True)]
    ['cross_entropy', 'focal', 'head_noise']
    """
    from calibrant.experiments.recipe_file import read_recipes

    with resources.as_file(_recipe_file()) as path:
        methods = [recipe for recipe in read_recipes(path) if recipe.seed == 0]
    if quick:
        methods = [replace(recipe, epochs=2) for recipe in methods if recipe.method in _QUICK]
    # Seed by seed: an interrupted demo has all methods for some seeds.
    return [replace(recipe, seed=seed) for seed in range(seeds) for recipe in methods]


def _recipe_file() -> Any:
    return resources.files("calibrant.demo") / "recipe.toml"


def _train(recipes: Sequence[Recipe], runs: Path, jobs: int) -> int:
    """Train the unfinished runs; return how many were finished."""
    from calibrant.experiments.grid import run_grid
    from calibrant.experiments.recipe_file import read_title
    from calibrant.experiments.record import recorded, write_titles
    from calibrant.progress import Progress

    with resources.as_file(_recipe_file()) as path:
        write_titles(runs, [read_title(path)])
    print(
        "The embedded corpus has 1,500 sentences of news to learn from, and posts as another "
        f"domain.\n{len(recipes)} small encoders are trained from scratch, or read if they are "
        "finished …\n",
        file=sys.stderr,
    )
    before = len(recorded(runs) & {recipe.key for recipe in recipes})
    options: dict[str, Any] = {"keep": True, "bootstrap": _REPLICATES, "device": "cpu"}
    with Progress(len(recipes) - before, "trainings") as progress:
        for _ in run_grid(recipes, runs, jobs=jobs, **options):
            progress.advance()
    return before


def _records(recipes: Sequence[Recipe], runs: Path) -> list[Any]:
    from calibrant.experiments.record import read_record
    from calibrant.experiments.run_folder import RunFolder

    return [read_record(RunFolder(runs / recipe.key).metrics) for recipe in recipes]


def _show(study: Study, seeds: int) -> None:
    from calibrant.cli.table import render_table

    for table in study.tables:
        if table.closed or not any(f"-{name}" in table.name for name in _SHOWN):
            continue
        heads = [*table.label_heads, *table.full_heads]
        rows = [[*row.labels, *(entry.text for entry in row.entries)] for row in table.rows]
        right = range(len(table.label_heads), len(heads))
        print(f"{table.title}\n{render_table(heads, rows, right=right)}")
        print(textwrap.fill(table.note.partition(" Bold")[0], _WIDTH), end="\n\n")
    if seeds == 1:
        print("One seed says nothing about differences between methods.\n")


def write_texts(path: Path) -> None:
    """Write posts without labels, which no run has seen, for people to review."""
    from calibrant.outputs import new_file
    from calibrant.tasks.language.synthetic import generate_splits

    posts = generate_splits(1, train=0, dev=0, test=0, ood=20)["ood"]
    with new_file(path, overwrite=True) as unfinished:
        lines = (" ".join(post.words) + "\n" for post in posts)
        unfinished.write_text("".join(lines), encoding="utf-8")


def _suggest(out: Path, run: Path) -> None:
    """Print commands that work unchanged, then some for the user's own data."""
    print(f"""Open {out / _PAGE} in a browser. Look closer at one run:
  {run / "report.html"}
  calibrant audit {run / "ood.parquet"} --calibrator {run / "temperature.json"}
  calibrant predict {run} "The mayor of Port Tim , Rosa Lind , joined Ford ."
  calibrant review {out / _TEXTS} --run {run}
With predictions of your own model (parquet, npz, safetensors, csv or jsonl):
  calibrant audit test.parquet --report audit.html
  calibrant compare valid.parquet test.parquet
  calibrant fit valid.parquet --calibrator temperature -o calibrator.json
  calibrant apply calibrator.json test.parquet -o calibrated.parquet
With a corpus of your own (a folder with train.conll, dev.conll and test.conll):
  calibrant train --data FOLDER --model tiny --learning-rate 3e-3 --method head-noise -o RUN
  calibrant predict RUN "A sentence of yours ."
'calibrant train --help' shows pretrained encoders, 'calibrant list methods' all methods.""")
