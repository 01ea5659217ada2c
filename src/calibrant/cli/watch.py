"""``calibrant watch``: accuracy and F1 of a stream without labels, its drift, and alarms."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.options import (
    add_file_options,
    add_intervals,
    add_keep_together,
    add_report,
    add_run_options,
    columns_from,
    refuse_run_options,
)
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.claims import Claims
    from calibrant.comparison import SpanCalibrator
    from calibrant.predictions import Predictions
    from calibrant.watching import Watch, WatchedChunk

__all__ = ["add_parser", "run"]

_FIRST_SHOWN, _LAST_SHOWN = 10, 30  # Chunks of a long stream that the table shows.
# Columns that a narrow terminal does without, first those that the sentences or others tell best.
_LEAST_NEEDED = (
    "of classes", "labels", "macro F1", "entity F1", "accuracy so far", "right", "drift",
)  # fmt: skip


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "watch",
        help="estimate accuracy and F1 of a stream without labels, and watch it for drift",
        description="Estimate accuracy and F1 of a stream of predictions without labels, chunk by "
        "chunk, and raise an alarm when it is no longer like the reference. Labels may be missing; "
        "existing labels are used.",
    )
    add_file_options(parser, "STREAM")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--calibrator",
        metavar="FILE",
        type=Path,
        help="make the confidences honest with this calibrator, a file that 'calibrant fit' saved",
    )
    source.add_argument(
        "--run",
        metavar="RUN",
        dest="run_folder",
        type=Path,
        help="take calibrator and reference from the folder of a 'calibrant train'; STREAM may be "
        "texts (.txt, .jsonl, .csv) or images, which its model predicts",
    )
    parser.add_argument(
        "--reference",
        metavar="VALID",
        action="append",
        help="labelled predictions of the same model to compare with, such as those that the "
        "calibrator was fitted on; without them no drift is measured",
    )
    parser.add_argument(
        "--reviewed",
        metavar="DECISIONS",
        type=Path,
        help="with --run, and STREAM a file of texts: the decisions of 'calibrant review' about "
        "them; the words of reviewed texts have labels",
    )
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--chunk", type=int, default=1000, metavar="ROWS", help="rows per chunk (1000)"
    )
    cut.add_argument(
        "--per",
        metavar="COLUMN",
        help="one chunk for each value of this column, or for each day of times",
    )
    add_keep_together(parser)
    parser.add_argument(
        "--estimator",
        choices=("cbpe", "atc"),
        default="cbpe",
        help="of accuracy: mean calibrated confidence, or average thresholded confidence (cbpe)",
    )
    add_intervals(parser, seed="seed that breaks ties")
    parser.add_argument(
        "--false-alarms",
        type=float,
        default=0.01,
        metavar="RATE",
        help="the largest probability of an alarm over the whole stream if nothing changes (0.01)",
    )
    add_report(parser)
    add_run_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Watch the stream, write the page, and print."""
    from calibrant.outputs import check_writable
    from calibrant.report.watch_page import write_watch
    from calibrant.watching import watch

    if args.reviewed is not None and args.run_folder is None:
        raise InputError("--reviewed is about texts: name the run that predicts them with --run.")
    if args.run_folder is None:
        refuse_run_options(args, "which --run names")
    if args.report is not None:  # Before the work, not after it.
        check_writable(args.report, overwrite=args.overwrite, inputs=_inputs(args))
    stream, calibrator, reference, entities = _of_run(args) if args.run_folder else _of_files(args)
    found = watch(
        stream,
        reference=reference,
        calibrator=calibrator,
        entities=entities,
        chunk=args.chunk,
        per=args.per,
        keep_together=args.keep_together,
        estimator=args.estimator,
        level=args.level,
        false_alarms=args.false_alarms,
        seed=args.seed,
    )
    if args.report is not None:  # Before anything is printed: the reader may leave early.
        write_watch(found, args.report, overwrite=args.overwrite)
    if args.json:
        print(document("watch", found.to_dict()))
        return 0
    _print(found)
    if args.report is not None:
        print(f"\nReport: {printable(str(args.report))}")
    return 0


def _inputs(args: argparse.Namespace) -> list[Path]:
    """Return what is read, which the page never replaces."""
    named = [*args.files, *(args.reference or ()), args.calibrator, args.run_folder, args.labels]
    named.append(args.reviewed)
    return [Path(name) for name in named if name is not None and Path(name).exists()]


_Watched = tuple[
    "Iterator[Any]", "Calibrator | None", "Predictions | Claims | None", "SpanCalibrator | None"
]


def _of_files(args: argparse.Namespace) -> _Watched:
    from calibrant.calibrators import load_calibrator
    from calibrant.files import expand, stream_unlabelled

    fitted = None if args.calibrator is None else load_calibrator(args.calibrator)
    reference = None if args.reference is None else _reference(args)
    stream = stream_unlabelled(expand(args.files), columns_from(args), args.kind, top_labels=True)
    return _with_progress(stream), fitted, reference, None


def _of_run(args: argparse.Namespace) -> _Watched:
    """Return what a run has: calibrators, a reference, and a model that predicts the stream."""
    from calibrant.calibrators import load_calibrator
    from calibrant.cli.run_stream import run_predictions
    from calibrant.experiments.adaptation import finished_run

    folder, _ = finished_run(args.run_folder)
    stream, raw = run_predictions(args.run_folder, args.files, args)
    prefix = "raw_" if raw and (folder.path / "raw_calibrator.json").exists() else ""
    calibrator = load_calibrator(folder.path / f"{prefix}calibrator.json")
    entities = _of_entities(folder.path, raw=raw)
    if args.reference is not None:
        return _with_progress(stream), calibrator, _reference(args), entities
    from calibrant.predictions import Predictions

    valid = Predictions.read(folder.predictions(f"{prefix}valid"))
    return _with_progress(stream), calibrator, valid, entities


def _of_entities(folder: Path, *, raw: bool) -> SpanCalibrator | None:
    """Return the confidence of entities that the run predicts with."""
    from calibrant.tasks.ner.entity_confidence import ENTITIES
    from calibrant.tasks.ner.finished_run import entity_judge

    if not (folder / ENTITIES).exists():  # Of texts or images, or of an earlier version.
        return None
    return entity_judge(folder, raw=raw)[0].span_calibrator()


def _reference(args: argparse.Namespace) -> Predictions | Claims:
    """Read the reference; it need not have the other columns of the stream."""
    from calibrant.files.reading import read

    return read(args.reference, replace(columns_from(args), groups=None), args.kind)


def _with_progress(stream: Iterator[Any]) -> Iterator[Any]:
    from calibrant.progress import Progress

    with Progress(None, "rows") as progress:
        for chunk in stream:
            yield chunk
            progress.advance(len(chunk) + chunk.ignored)


def _print(found: Watch) -> None:
    from calibrant.charts.numbers import counted
    from calibrant.cli.table import render_table, that_fit

    print(f"{counted(found.total.rows, 'row')} in {counted(len(found.chunks), 'chunk')}\n")
    warned = [f"Warning: {warning}" for warning in found.warnings]
    print(*map(printable, [*found.verdict, *warned]), sep="\n", end="\n\n")
    names, values = _columns(found)
    table = [[value(chunk) for value in values] for chunk in (*found.chunks, found.total)]
    kept, left_out = that_fit(names, table, _LEAST_NEEDED)
    names, values = [names[i] for i in kept], [values[i] for i in kept]
    rows = [[value(chunk) for value in values] for chunk in found.chunks]
    if len(rows) > _FIRST_SHOWN + _LAST_SHOWN:
        left = f"({len(rows) - _FIRST_SHOWN - _LAST_SHOWN:,} more: --json)"
        rows = [*rows[:_FIRST_SHOWN], ["…", left, *[""] * (len(names) - 2)], *rows[-_LAST_SHOWN:]]
    rows.append([value(found.total) for value in values])
    print(render_table(names, rows, right=range(1, len(names))))
    if left_out:
        listed = ", ".join(left_out).replace("of classes", "drift of classes")
        print(f"\nThe terminal is too narrow for {listed}; --json has all numbers.")


def _columns(found: Watch) -> tuple[list[str], list[Any]]:
    """Return the columns that have numbers: their heads, and the cell of a chunk."""
    from calibrant.charts.numbers import count, percent

    chunks = (*found.chunks, found.total)
    table: list[tuple[str, Any, bool]] = [
        ("chunk", lambda c: c.name, True),
        ("rows", lambda c: count(c.rows), True),
        ("expected accuracy", lambda c: _estimate(c.expected_accuracy), True),
        *(
            (head, cell, any(not math.isnan(getattr(c, name).value) for c in chunks))
            for name, head, cell in (
                ("expected_macro_f1", "macro F1", lambda c: _estimate(c.expected_macro_f1)),
                ("expected_entity_f1", "entity F1", lambda c: _estimate(c.expected_entity_f1)),
            )
        ),
        ("drift", lambda c: percent(c.confidence_drift), bool(found.reference)),
        ("of classes", lambda c: percent(c.class_drift), not math.isnan(found.total.class_drift)),
        ("labels", lambda c: count(c.labelled), bool(found.total.labelled)),
        ("right", lambda c: percent(c.labelled_accuracy), bool(found.total.labelled)),
        ("accuracy so far", lambda c: _estimate(c.accuracy), bool(found.total.labelled)),
        ("alarm", _alarm, bool(found.alarms)),
    ]
    shown = [(name, cell) for name, cell, is_there in table if is_there]
    return [name for name, _ in shown], [cell for _, cell in shown]


def _alarm(chunk: WatchedChunk) -> str:
    return ", ".join(chunk.alarms)


def _estimate(found: tuple[float, float, float]) -> str:
    from calibrant.charts.numbers import percent, show

    value, low, high = found
    if math.isnan(low):
        return percent(value)
    return f"{percent(value)} [{show(100 * low, 1)}, {show(100 * high, 1)}]"
