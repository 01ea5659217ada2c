"""``calibrant compare``: which calibrator makes these confidences honest?"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.apply import apply_command
from calibrant.cli.document import document
from calibrant.cli.entities import compare_entity_files
from calibrant.cli.entity_options import add_entity_options, without_entities
from calibrant.cli.old_options import calibrator_name
from calibrant.cli.options import add_cluster, add_file_options, add_json, check_cluster
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.comparison import Comparison, Row
    from calibrant.metrics import Metric

__all__ = ["add_parser", "print_comparison", "run"]

# Columns that a narrow terminal does without, first those that matter least for the choice.
_LEAST_NEEDED = ("fit", "adaptive ECE", "Brier", "NLL", "calibr.")


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "compare",
        help="compare all calibrators and recommend one",
        description="Fit every calibrator on VALID, recommend one by cross-validation on VALID, "
        "and show the results of each on TEST. TEST does not influence the choice.",
    )
    parser.add_argument(
        "valid", metavar="VALID", help="predictions to fit on: a file, a folder or a glob"
    )
    parser.add_argument("test", metavar="TEST", help="predictions to evaluate on")
    parser.add_argument(
        "more",
        nargs="*",
        default=[],
        metavar="FILE",
        help="with --entities, all four files: PREDICTED and GOLD to fit on, PREDICTED and GOLD to "
        "evaluate on",
    )
    add_file_options(parser, None)
    add_entity_options(parser, scores=False)
    parser.add_argument(
        "--calibrators",
        metavar="NAME[,NAME…]",
        help="which calibrators to compare; 'calibrant list calibrators' shows them (all)",
    )
    parser.add_argument(
        "--keep-predictions",
        action="store_true",
        help="compare only calibrators that never change the predicted class",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the recommended calibrator here"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation (5)")
    parser.add_argument(
        "--bootstrap",
        type=int,
        default=1000,
        help="bootstrap replicates for intervals (1000); 0: no intervals",
    )
    parser.add_argument("--bins", type=int, default=15, help="bins of the calibration errors (15)")
    parser.add_argument("--seed", type=int, default=0, help="seed of folds and bootstrap (0)")
    parser.add_argument(
        "--force",
        action="store_true",
        help="compare even if VALID and TEST hold the same examples; the numbers on TEST are then "
        "too good",
    )
    add_json(parser)
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare the calibrators and print the table."""
    check_cluster(args)
    if args.entities:
        return compare_entity_files(args)
    without_entities(args)
    if args.more:
        raise InputError(
            f"compare takes two files, VALID and TEST, got {2 + len(args.more)}; four are for "
            "--entities."
        )
    _check_output(args)
    names = args.calibrators and [calibrator_name(n.strip()) for n in args.calibrators.split(",")]
    options = {
        "folds": args.folds,
        "bootstrap": args.bootstrap,
        "bins": args.bins,
        "seed": args.seed,
        "same_data": args.force,
        "keep_predictions": args.keep_predictions,
    }
    compared = _compared if args.engine is None else _compared_on_cluster
    found = compared(args, names, options)
    if args.output is not None:
        found.fitted[found.recommended].save(args.output, overwrite=args.overwrite)
    if args.json:
        print(document("compare", {**found.to_dict(), "output": args.output and str(args.output)}))
    else:
        print_comparison(found)
        if args.output is not None:
            print(f"Saved: {printable(str(args.output))} ({found.recommended}, fitted on VALID)")
        if found.recommended != "identity":
            print(f"\nNext: {printable(_next_command(found, args))}")
    return 0


def _next_command(found: Comparison, args: argparse.Namespace) -> str:
    """Suggest what to do with the recommended calibrator, as one line."""
    if args.output is not None:
        return apply_command(args.output)
    return f"the same command with -o calibrator.json    # save {found.recommended}"


def _compared(
    args: argparse.Namespace, names: list[str] | None, options: dict[str, Any]
) -> Comparison:
    from calibrant.cli.fit import read_with_progress
    from calibrant.comparison import compare
    from calibrant.comparison.selection import calibrator_names
    from calibrant.progress import Progress

    valid = read_with_progress([args.valid], args)
    test = read_with_progress([args.test], args)
    with Progress(len(calibrator_names(names, args.keep_predictions)), "calibrators") as progress:
        return compare(valid, test, names, progress=lambda _: progress.advance(), **options)


def _compared_on_cluster(
    args: argparse.Namespace, names: list[str] | None, options: dict[str, Any]
) -> Comparison:
    from calibrant.cli.audit import print_left_out
    from calibrant.cli.options import columns_from
    from calibrant.distributed import compare
    from calibrant.distributed.engines import using_engine

    reading = {"columns": columns_from(args), "kind": args.kind, "skip_damaged": args.skip_corrupt}
    with using_engine(args.engine) as engine:
        found = compare(args.valid, args.test, names, engine=engine, **reading, **options)
    print_left_out({"left_out": found.left_out})
    return found


def _check_output(args: argparse.Namespace) -> None:
    """Check the output before the work starts."""
    from calibrant.calibrators.saving import check_suffix
    from calibrant.files import expand
    from calibrant.outputs import check_writable

    if args.output is not None:
        inputs = [] if args.engine is not None else expand([args.valid, args.test])
        check_writable(check_suffix(args.output), overwrite=args.overwrite, inputs=inputs)


def print_comparison(found: Comparison) -> None:
    """Print the table, the recommendation and what was skipped."""
    from calibrant.charts.numbers import counted
    from calibrant.cli.table import render_table, that_fit
    from calibrant.metrics import METRICS

    s = found.settings
    valid, test = (counted(n, "example") for n in (s.valid_examples, s.test_examples))
    print(
        f"VALID: {valid}, {counted(s.folds, 'fold')}; TEST: {test}; {counted(s.classes, 'class')}\n"
    )
    compared = [metric for metric in METRICS.values() if metric.compared]
    heads = [metric.short for metric in compared]
    headers = ["", "calibrator", "CV NLL", "calibr.", *heads, "Δaccuracy", "fit"]
    rows = [_cells(row, found.recommended, compared) for row in found.rows]
    kept, left_out = that_fit(headers, rows, _LEAST_NEEDED)
    rows = [[row[i] for i in kept] for row in rows]
    print(render_table([headers[i] for i in kept], rows, right=range(2, len(kept))))
    if left_out:
        print(f"\nThe terminal is too narrow for {', '.join(left_out)}; --json has all numbers.")
    print(f"\n* Recommended: {printable(found.reason)}")
    if found.rows[0].valid_calibration is not None:
        print(_still_to_gain(found))
    if found.difference is not None:
        print(f"Note: {printable(found.difference)}")
    crossed = "CV NLL is" if "calibr." in left_out else "CV NLL and calibr. are"
    print(f"{crossed} measured on VALID by cross-validation, everything else on TEST.")
    for note in dict.fromkeys(note for row in found.rows for note in row.notes):
        names = [row.name for row in found.rows if note in row.notes]
        whose = names[0] if len(names) == 1 else f"{len(names)} calibrators"
        print(f"- {whose}: {printable(note)}")
    for why in dict.fromkeys(found.skipped.values()):
        names = [name for name, reason in found.skipped.items() if reason == why]
        were = "was" if len(names) == 1 else "were"
        print(f"- {', '.join(names)} {were} skipped: {printable(why)}")


def _still_to_gain(found: Comparison) -> str:
    """Split the log-loss into what a temperature or an isotonic curve removes, and the rest.

    The rest is no bound: another curve, or weights of classes, can use what these two cannot.
    """
    before, after = found[found.rows[0].name], found[found.recommended]
    parts = [(r.valid_nll, r.valid_calibration or 0.0) for r in (before, after)]
    total, calibration = parts[0]
    return (
        f"Uncalibrated, the CV NLL of {_number(total)} is {_number(calibration)} of calibration, "
        f"which a temperature or an isotonic curve removes, and {_number(total - calibration)} of "
        "refinement, which they leave: a better model lowers it, and sometimes another curve or a "
        f"calibrator with numbers for each class. After {after.name}: {_number(parts[1][1])} and "
        f"{_number(parts[1][0] - parts[1][1])}."
    )


def _cells(row: Row, recommended: str, compared: Sequence[Metric]) -> list[str]:
    from calibrant.charts.numbers import signed

    change = signed(row.accuracy_change, 4) if row.accuracy_change else "0"
    numbers = {metric.name: _number(row.metrics[metric.name]) for metric in compared}
    if row.ece_low is not None:
        numbers["ece"] += f" [{row.ece_low:.4f}, {row.ece_high:.4f}]"
    return [
        "*" if row.name == recommended else "",
        row.name,
        _number(row.valid_nll),
        "" if row.valid_calibration is None else _number(row.valid_calibration),
        *numbers.values(),
        change,
        _seconds(row.fit_seconds),
    ]


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.4f}"


def _seconds(value: float) -> str:
    if math.isnan(value):  # Fits that share their passes have no time of their own.
        return ""
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.1f} s"
