"""``calibrant demo``: eight training methods on embedded data, compared over seeds."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.experiments.record import Record

__all__ = ["add_parser", "run"]

_WIDTH = 100  # Longer lines are hard to read, however wide the terminal is.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "demo",
        help="compare eight training methods on embedded data, in minutes on a CPU",
        description="Train a small tagger of entities on an embedded corpus with eight methods and "
        "several seeds, with and without temperature scaling; print the table of F1, ECE and APCR "
        "and what confidences are worth out of domain; write the report. Interrupted, the same "
        "command goes on; finished runs are not trained again.",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out/demo"), help="(out/demo)")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace report and pictures, and runs of other settings; finished runs are kept",
    )
    parser.add_argument("--seeds", type=int, help="runs of each method, 1 to 10 (3)")
    parser.add_argument("--jobs", type=int, help="trainings side by side (one per CPU, at most 8)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="three methods, one seed, barely trained: shows that it works, and no result",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train, print, write."""
    from calibrant.demo.spread import MOST_SEEDS
    from calibrant.extras import require

    seeds = args.seeds if args.seeds is not None else 1 if args.quick else 3
    jobs = args.jobs if args.jobs is not None else min(8, os.cpu_count() or 1)
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"--seeds is from 1 to {MOST_SEEDS}, got {seeds}.")
    if jobs < 1:
        raise InputError(f"--jobs is at least 1, got {jobs}.")
    for module in ("torch", "transformers", "matplotlib"):
        require(module, "demo", "The demo")
    _prepare(args.output, args.overwrite)
    from calibrant.demo.report import write_demo_report
    from calibrant.demo.runs import demo_recipes, read_runs, run_path
    from calibrant.demo.telling import best

    recipes = demo_recipes(seeds, args.quick)
    folder = args.output / "runs"
    before = _train(recipes, folder, jobs, args.overwrite)
    records = read_runs(recipes, folder)
    write_demo_report(args.output, records, folder)  # Before anything is printed.
    if before:
        print(f"{before} of {sum(map(len, recipes.values()))} were finished before.\n")
    _tell(records)
    runs = {name: run_path(folder, each[0]) for name, each in recipes.items()}
    _say_what_next(args.output, runs, best(records))
    return 0


def _prepare(out: Path, overwrite: bool) -> None:
    from calibrant.demo.report import FILES
    from calibrant.outputs import check_writable, make_folder

    make_folder(out)
    for name in FILES:
        check_writable(out / name, overwrite=overwrite)  # Before the work, not after it.


def _train(
    recipes: Mapping[str, Sequence[Recipe]], folder: Path, jobs: int, overwrite: bool
) -> int:
    """Train what is not finished; return how many were."""
    from calibrant.demo.runs import run_path, train_runs
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.progress import Progress

    total = sum(map(len, recipes.values()))
    seeds = total // len(recipes)
    print(
        f"The embedded corpus has 1,500 sentences of news to learn from, and posts as another "
        f"domain.\n{len(recipes)} methods × {seeds} seed{'s' * (seeds > 1)}: {total} small "
        "encoders are trained from scratch, or read where they are finished …\n",
        file=sys.stderr,
    )
    done = sum(
        RunFolder(run_path(folder, recipe)).finished for each in recipes.values() for recipe in each
    )
    with Progress(total - done, "trainings") as progress:
        for _ in train_runs(recipes, folder, jobs=jobs, overwrite=overwrite):
            progress.advance()
    return total - progress.done


def _tell(records: Mapping[str, Sequence[Record]]) -> None:
    from calibrant.cli.table import render_table
    from calibrant.demo.telling import LEGEND, domain_table, findings, method_table

    heads, rows = method_table(records)
    print(render_table(heads, rows, right=range(1, len(heads))))
    print(f"\n{textwrap.fill(LEGEND, _WIDTH)}\n")
    print("How often right and how sure on average, in-domain and out of domain (ood)")
    heads, rows = domain_table(records)
    print(render_table(heads, rows, right=range(1, len(heads))), end="\n\n")
    for sentence in findings(records):
        print(textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  "))


def _say_what_next(out: Path, runs: Mapping[str, Path], best: str) -> None:
    """Commands that work as they stand, then those for data of one's own."""
    from calibrant.demo.runs import BASELINE, VARIANTS
    from calibrant.experiments.run_folder import RunFolder

    run, method = RunFolder(runs[BASELINE]), VARIANTS[best][0].replace("_", "-")
    print(f"""
Open {out / "report.html"} in a browser. Look closer:
  calibrant audit {run.predictions("ood")} --with {run.temperature}
  calibrant predict {runs[best]} "The mayor of Port Tim , Rosa Lind , joined Ford ."
With predictions of your own model (parquet, npz, safetensors, csv or jsonl):
  calibrant audit test.parquet --report audit.html
  calibrant compare valid.parquet test.parquet
  calibrant fit valid.parquet --method temperature -o map.json
  calibrant apply map.json test.parquet -o calibrated.parquet
With a corpus of your own (a folder with train.conll, dev.conll and test.conll):
  calibrant train --data FOLDER --model tiny --learning-rate 3e-3 --method {method} -o RUN
  calibrant predict RUN "A sentence of yours ."
'calibrant train --help' tells of pretrained encoders, 'calibrant list methods' of all methods.""")
