"""``calibrant evaluate``: measure a trained run on labelled data, clean and corrupted."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.cli.document import document
from calibrant.cli.options import add_data_dir, add_device, add_json, add_run, add_trust
from calibrant.errors import printable

__all__ = ["add_parser", "run"]


# Metrics shown with and without the calibrator of a run, and those shown with it alone.
_BOTH, _MAPPED = ("ece", "nll"), ("aurc", "auroc")


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "evaluate",
        help="test a trained run on labelled data, also corrupted",
        description="Measure the model of a training run on labelled data, clean and corrupted at "
        "strengths from 1 to 5. Print a table, and draw score and ECE against strength.",
    )
    add_run(parser)
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        help="a labelled file, a folder of classes, or the test split of a folder or of a corpus "
        "by name (default: the test split of the run)",
    )
    parser.add_argument(
        "--corrupt",
        nargs="+",
        default=[],
        metavar="KIND[-STRENGTH]",
        help="corruptions, such as typos (all strengths) or jpeg-3; 'calibrant list corruptions' "
        "shows all",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the corruptions (0)")
    parser.add_argument(
        "--figure", metavar="FILE", type=Path, help="draw a .png, .svg or .pdf (needs --corrupt)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing figure")
    add_json(parser)
    add_data_dir(parser)
    add_device(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate, draw, and print the table."""
    from calibrant.extras import require

    for module in ("torch", "transformers"):
        require(module, "transformers", "Evaluating a trained model")
    if args.figure is not None:
        _check_figure(args)  # Before the work, not after it.
    results = _evaluate(args)
    if args.figure is not None:
        _draw(results, args)
    _print(results, args)
    return 0


def _check_figure(args: argparse.Namespace) -> None:
    from calibrant.errors import InputError
    from calibrant.extras import require
    from calibrant.outputs import check_writable

    if not args.corrupt:
        raise InputError("A figure shows corruptions: name some with --corrupt.")
    if args.figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"A figure is .png, .svg or .pdf, got '{args.figure}'.")
    check_writable(args.figure, overwrite=args.overwrite, inputs=_files_read(args))
    require("matplotlib", "plots", "Drawing a figure")


def _evaluate(args: argparse.Namespace) -> dict[str, Any]:
    """Evaluate with a progress bar; print warnings of this package, each once."""
    from calibrant.calibrators import CalibrationWarning
    from calibrant.experiments.evaluation import LeftOutWarning, evaluate
    from calibrant.progress import Progress

    shown = (CalibrationWarning, LeftOutWarning)
    with Progress(None, "test sets") as progress, warnings.catch_warnings(record=True) as caught:
        for kind in shown:
            warnings.simplefilter("always", kind)
        results = evaluate(
            args.model,
            args.data,
            corrupt=args.corrupt,
            seed=args.seed,
            directory=args.data_dir,
            device=args.device,
            progress=progress.advance,
            trust_remote_code=args.trust_remote_code,
        )
    for note in sorted({str(w.message) for w in caught if w.category in shown}):
        print(printable(note), file=sys.stderr)
    return results


def _draw(results: Mapping[str, Any], args: argparse.Namespace) -> None:
    from calibrant.metrics import METRICS
    from calibrant.outputs import new_file
    from calibrant.plots import shift_diagram
    from calibrant.plots.drawing import save_figure

    chosen, score = list(results)[-1], _scores(results)[0]
    shown = "temperature" if chosen == "identity" else chosen
    with new_file(args.figure, overwrite=args.overwrite) as unfinished:
        save_figure(shift_diagram(results, score, METRICS[score].short, shown), unfinished)


def _files_read(args: argparse.Namespace) -> list[Path]:
    """Return the files of the run and the data, which the figure may not replace."""
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.tasks.reading.catalogue import find_file, find_folder

    run = RunFolder(args.model)
    recipe = run.recipe()
    if recipe is None:
        return run.files()
    place = args.data or recipe.data, recipe.task, args.data_dir
    found = find_folder(*place), find_file(*place)
    return [*run.files(), *(path for path in found if path is not None)]


def _scores(results: Mapping[str, Any]) -> list[str]:
    """Return the metrics of predictive quality that were measured, the task's own first."""
    from calibrant.metrics.table import quality_metrics

    return [name for name in quality_metrics() if name in results["identity"]["test"]]


def _print(results: Mapping[str, Any], args: argparse.Namespace) -> None:
    from calibrant.cli.run_numbers import describe_entities, listed_results
    from calibrant.cli.table import render_table

    if args.json:
        listed = listed_results(results)
        names = {key: listed[-1][key] for key in ("calibrator", "map")}
        content = {"run": str(args.model), "data": args.data, **names, "results": listed}
        print(document("evaluate", content))
        return
    chosen = list(results)[-1]
    raw, mapped = results["identity"], results[chosen]
    columns = _columns(_scores(results), raw, mapped)
    rows = [
        [name or "as it is", *(_number(part, name, metric) for part, metric, _ in columns)]
        for name in (None, *raw.get("shift", {}))
    ]
    headers = ["data", *(title for _, _, title in columns)]
    print(render_table(headers, rows, right=range(1, len(headers))))
    if chosen == "identity":
        print("\nThe run's calibrator is the identity: it leaves the confidences as they are.")
    else:
        print(f"\n(C): with the calibrator of the run, {chosen}, as 'calibrant predict' uses it.")
    where = " (data as it is)" if raw.get("shift") else ""
    for line in describe_entities(mapped):
        print(f"{printable(line)}{where}")
    if args.figure is not None:
        print(f"Figure: {printable(str(args.figure))}")


def _columns(
    scores: Sequence[str], raw: Mapping[str, Any], mapped: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], str, str]]:
    """Return numbers, metric and title of each column; without a calibrator each metric once."""
    from calibrant.metrics import METRICS

    columns = [(raw, name, METRICS[name].short) for name in scores]
    if mapped is raw:
        return columns + [(raw, name, METRICS[name].short) for name in (*_BOTH, *_MAPPED)]
    for name in _BOTH:
        columns += [(raw, name, METRICS[name].short), (mapped, name, f"{METRICS[name].short} (C)")]
    return columns + [(mapped, name, f"{METRICS[name].short} (C)") for name in _MAPPED]


def _number(part: Mapping[str, Any], name: str | None, metric: str) -> str:
    value = (part["test"] if name is None else part["shift"][name])[metric]
    return "–" if math.isnan(value) else f"{value:.4f}"
