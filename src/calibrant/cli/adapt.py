"""``calibrant adapt``: correct a calibrator, or a run, for a new data set without labels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.options import (
    add_data_dir,
    add_file_options,
    add_intervals,
    add_json,
    add_keep_together,
    add_output,
    add_run_options,
    columns_from,
    refuse_run_options,
)
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.adapting import Adaptation
    from calibrant.predictions import Predictions

__all__ = ["add_parser", "run"]

_MOST_CLASSES = 40  # Of the table; --json has all.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "adapt",
        help="correct a calibrator or a run for a new data set without labels",
        description="Correct a calibrator, or a run, for a new data set without labels: for other "
        "class frequencies, or for examples that have become harder. Report what has probably "
        "changed, and stop with an error if the data do not allow a correction.",
    )
    parser.add_argument(
        "calibrator",
        metavar="CALIBRATOR|RUN",
        type=Path,
        help="a file that 'calibrant fit' saved, or the folder of a 'calibrant train'",
    )
    add_file_options(parser, None)
    parser.add_argument(
        "--valid",
        metavar="FILE",
        nargs="+",
        default=[],
        help="labelled predictions, such as those that the calibrator was fitted on; a run has its "
        "own",
    )
    parser.add_argument(
        "--unlabelled",
        metavar="FILE",
        nargs="+",
        required=True,
        help="predictions for the new data, whose labels are not used; for a run also texts "
        "(.txt, .jsonl, .csv) or images",
    )
    parser.add_argument(
        "--copies",
        metavar="FILE",
        nargs="+",
        default=[],
        help="labelled predictions for damaged copies of the validation data, or for other data "
        "sets: one file each",
    )
    parser.add_argument(
        "--method",
        choices=("auto", "em", "bbse", "set-level"),
        default="auto",
        help="em, bbse: other class frequencies; set-level: harder examples, as in the copies "
        "(auto: set-level with copies, else em)",
    )
    add_keep_together(parser)
    add_intervals(parser, 400)
    add_output(
        parser,
        "save the new calibrator to this file, or the copy of the run to this folder",
        metavar="OUT",
        old="output",
    )
    add_json(parser)
    _add_run_options(parser)
    parser.set_defaults(run=run)


def _add_run_options(parser: Any) -> None:
    group = add_run_options(parser)
    group.add_argument(
        "--corrupt",
        metavar="KIND[-STRENGTH]",
        nargs="+",
        default=[],
        help="corruptions that make labelled copies of the run's test split (five kinds at the "
        "strengths 1, 3 and 5)",
    )
    add_data_dir(group)


def run(args: argparse.Namespace) -> int:
    """Adapt the calibrator, save it, and print what has changed."""
    found = _adapt_run(args) if args.calibrator.is_dir() else _adapt_calibrator(args)
    print_adaptation(found, args)
    return 0


def _adapt_run(args: argparse.Namespace) -> Adaptation:
    from calibrant.cli.run_stream import run_predictions
    from calibrant.experiments.adaptation import adapt_run, check_adapted_folder, finished_run
    from calibrant.predictions import Predictions
    from calibrant.progress import Progress

    for option, default in (("valid", []), ("copies", []), ("keep_together", "auto")):
        if getattr(args, option) != default:
            name = option.replace("_", "-")
            raise InputError(f"--{name} is for a calibrator; a run has its own.")
    if args.corrupt and args.method in ("em", "bbse"):
        raise InputError(f"--corrupt is for --method set-level, got {args.method}.")
    folder, _ = finished_run(args.calibrator)
    check_adapted_folder(folder.path, args.output, args.overwrite)  # Before the work.
    parts, raw = run_predictions(args.calibrator, args.unlabelled, args)
    new = Predictions.concatenate(parts)
    with Progress(None, "copies") as progress:
        return adapt_run(
            args.calibrator,
            new,
            args.output,
            raw=raw,
            method=args.method,
            corrupt=args.corrupt,
            level=args.level,
            bootstrap=args.bootstrap,
            seed=args.seed,
            directory=args.data_dir,
            device=args.device,
            overwrite=args.overwrite,
            progress=progress.advance,
            trust_remote_code=args.trust_remote_code,
        )


def _adapt_calibrator(args: argparse.Namespace) -> Adaptation:
    from calibrant.adapting import adapt
    from calibrant.calibrators import load_calibrator
    from calibrant.calibrators.saving import check_suffix
    from calibrant.files import expand
    from calibrant.outputs import check_writable

    refuse_run_options(args, f"which {args.calibrator} is not")
    if not args.valid:
        raise InputError("A calibrator needs labelled predictions: --valid FILE.")
    inputs = [args.calibrator, *expand([*args.valid, *args.unlabelled, *args.copies])]
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    check_suffix(args.output, (".json", ".safetensors", ".onnx"))
    calibrator = load_calibrator(args.calibrator)
    found = adapt(
        calibrator,
        _read(args.valid, args),
        _read(args.unlabelled, args),
        method=args.method,
        copies={str(name): _read([name], args) for name in args.copies},
        keep_together=args.keep_together,
        level=args.level,
        bootstrap=args.bootstrap,
        seed=args.seed,
    )
    if args.output.suffix == ".onnx":
        from calibrant.calibrators.export import to_onnx

        to_onnx(found.calibrator, args.output, overwrite=args.overwrite)
    else:
        found.calibrator.save(args.output, overwrite=args.overwrite)
    return found


def _read(files: Sequence[str], args: argparse.Namespace) -> Predictions:
    """Read predictions of which labels may be missing."""
    from calibrant.files import expand, stream_unlabelled
    from calibrant.predictions import Predictions
    from calibrant.progress import Progress

    parts, found = [], expand(files)
    with Progress(None, "rows") as progress:
        for part in stream_unlabelled(found, columns_from(args), args.kind):
            parts.append(part)
            progress.advance(len(part))
    if not parts:
        raise InputError(f"{found[0]}: no rows.")
    return Predictions.concatenate(parts)


def print_adaptation(found: Adaptation, args: argparse.Namespace) -> None:
    """Print what has changed: sentences and a table, or one document."""
    from calibrant.charts.numbers import counted, percent, show
    from calibrant.cli.table import render_table

    if args.json:
        print(document("adapt", {**found.to_dict(), "output": str(args.output)}))
        return
    print(f"{counted(found.rows, 'row')} of new data; method: {found.method}\n")
    print(*map(printable, found.verdict), sep="\n", end="\n\n")
    if found.classes:
        heads = ["class", "before", "after", "interval", "changed"]
        rows = [
            [
                share.name,
                percent(share.before),
                percent(share.after),
                f"[{show(100 * share.low, 1)}, {show(100 * share.high, 1)}]",
                "yes" if share.changed else "",
            ]
            for share in found.classes[:_MOST_CLASSES]
        ]
        print(render_table(heads, rows, right=[1, 2, 3]))
        if len(found.classes) > len(rows):
            more = counted(len(found.classes) - len(rows), "more class")
            print(f"({more}: --json)")
    else:
        heads = ["labelled set", "rows", "mean confidence", "accuracy"]
        rows = [
            [point.name, f"{point.rows:,}", percent(point.confidence), percent(point.accuracy)]
            for point in found.sets
        ]
        print(render_table(heads, rows, right=[1, 2, 3]))
    print(f"\nSaved: {printable(str(args.output))}")
