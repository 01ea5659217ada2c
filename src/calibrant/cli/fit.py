"""``calibrant fit``: fit a calibrator on validation predictions and save it."""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.apply import apply_command
from calibrant.cli.document import document
from calibrant.cli.entities import fit_entities
from calibrant.cli.entity_options import add_entity_options, without_entities
from calibrant.cli.old_options import calibrator_name
from calibrant.cli.options import (
    add_cluster,
    add_file_options,
    add_json,
    add_output,
    add_set,
    check_cluster,
    columns_from,
    files_read,
    parse_settings,
    print_notes,
)
from calibrant.errors import InputError, printable, unknown_name
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from calibrant.calibrators import Calibrator
    from calibrant.claims import Claims
    from calibrant.files import Paths
    from calibrant.predictions import Predictions

__all__ = ["add_parser", "read_with_progress", "run"]

_TOO_MUCH = 2**63  # No hyper-parameter is so large; 10⁴⁰⁰ would be no float.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "fit",
        help="fit a calibrator on validation predictions",
        description="Fit a calibrator on validation predictions and save it as .json, as "
        ".safetensors (if it is large), or as .onnx (to run it elsewhere).",
    )
    add_file_options(parser, "VALID")
    add_entity_options(parser)
    parser.add_argument(
        "--calibrator",
        type=calibrator_name,
        metavar="NAME",
        help="which calibrator to fit; 'calibrant list calibrators' shows all; auto chooses the "
        "simplest one that no other beats in cross-validated log-loss (temperature; of entities "
        "one of score, type and length)",
    )
    parser.add_argument(
        "--keep-predictions",
        action="store_true",
        help="with auto: choose among calibrators that never change the predicted class",
    )
    add_set(parser, "set a hyper-parameter of the calibrator, such as --set bins=10")
    add_output(parser, "save the calibrator here")
    add_json(parser)
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit the calibrator, save it, and print what it gained."""
    check_cluster(args)
    if args.entities:
        return fit_entities(args, _of_scores(args))
    without_entities(args)
    args.calibrator = args.calibrator or "temperature"
    from calibrant.calibrators.saving import check_suffix
    from calibrant.files import expand
    from calibrant.outputs import check_writable

    inputs = []
    if args.engine is None:
        args.files = expand(args.files)
        inputs = files_read(args)
    # Before the work, not after it.
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    check_suffix(args.output, (".json", ".safetensors", ".onnx"))
    settings = parse_settings(args.settings)
    calibrator = None if _is_auto(args) else _calibrator(args.calibrator, settings)
    if args.engine is not None:
        calibrator = _fitted_on_cluster(calibrator, args)
    else:
        calibrator = _fitted(calibrator, args)
    if args.output.suffix == ".onnx":
        from calibrant.calibrators.export import to_onnx

        to_onnx(calibrator, args.output, overwrite=args.overwrite)
    else:
        calibrator.save(args.output, overwrite=args.overwrite)
    _print(calibrator, args)
    return 0


def _of_scores(args: argparse.Namespace) -> Calibrator | None:
    """Return the calibrator of the scores of entities that was asked for, if any."""
    if args.calibrator is None:
        return None
    if args.calibrator == "auto":
        raise InputError(
            f"--calibrator auto does not go with {args.entities}: 'calibrant compare "
            f"{args.entities}' recommends a calibrator."
        )
    return _calibrator(args.calibrator, parse_settings(args.settings))


def _fitted(calibrator: Calibrator | None, args: argparse.Namespace) -> Calibrator:
    from calibrant.calibrators import CalibrationWarning

    valid = read_with_progress(args.files, args)
    if calibrator is None:
        from calibrant.comparison import select_calibrator

        chosen = select_calibrator(valid, keep_predictions=args.keep_predictions)
        print(f"Chosen: {chosen.reason}", file=sys.stderr)
        return chosen.calibrator
    if not calibrator.needs_copies:
        valid = clean_rows(valid)
    with warnings.catch_warnings():  # Printed later, and saved with the calibrator.
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(valid)
    if calibrator.needs_copies:
        _print_lack_of_copies(calibrator, valid)
    return calibrator


def clean_rows(valid: Predictions | Claims) -> Predictions | Claims:
    """Return the rows of validation itself; corrupted copies are for calibrators that need them."""
    from calibrant.comparison.under_shift import without_copies

    clean, copies = without_copies(valid)
    if copies is not None:
        _print_copies(len(copies))
    return clean


def _print_copies(count: int) -> None:
    from calibrant.calibrators.signals import CORRUPTION
    from calibrant.charts.numbers import counted

    left_out = f"{counted(count, 'row')} with a name in the column '{CORRUPTION}'"
    print(f"Left out: {left_out}, which are corrupted copies.", file=sys.stderr)


def _print_lack_of_copies(calibrator: Calibrator, valid: Predictions | Claims) -> None:
    from calibrant.calibrators.signals import CORRUPTION
    from calibrant.comparison.under_shift import without_copies

    if without_copies(valid)[1] is None:
        print(
            f"No corrupted copies beside clean rows (column '{CORRUPTION}'): {calibrator.name} "
            "learns of these rows alone, and nothing about damage.",
            file=sys.stderr,
        )


def _fitted_on_cluster(calibrator: Calibrator | None, args: argparse.Namespace) -> Calibrator:
    from calibrant.calibrators import CalibrationWarning
    from calibrant.cli.audit import print_left_out
    from calibrant.distributed import fit
    from calibrant.distributed.engines import using_engine

    if calibrator is None:
        raise InputError(
            "--calibrator auto is not fitted on a cluster; 'calibrant compare … --engine' "
            "recommends one and saves it with -o."
        )
    options = {"columns": columns_from(args), "kind": args.kind, "skip_damaged": args.skip_corrupt}
    with warnings.catch_warnings(), using_engine(args.engine) as engine:
        warnings.simplefilter("ignore", CalibrationWarning)
        found = fit(args.files, calibrator, engine=engine, **options)
    print_left_out(found.fitted_on_)
    if copies := found.fitted_on_.pop("copies", 0):  # As without an engine.
        _print_copies(copies)
    return found


def _is_auto(args: argparse.Namespace) -> bool:
    """Whether to choose the calibrator; refuse options that do not go with it."""
    auto = bool(args.calibrator == "auto")
    if auto and args.settings:
        raise InputError(
            "--set needs the calibrator whose hyper-parameter it sets: --calibrator NAME."
        )
    if args.keep_predictions and not auto:
        raise InputError("--keep-predictions needs --calibrator auto.")
    return auto


def read_with_progress(files: Paths, args: argparse.Namespace) -> Predictions | Claims:
    """Read all predictions of the files, with a progress bar if it takes long."""
    from calibrant.files import count_rows, expand, stream
    from calibrant.files.format import joined
    from calibrant.progress import Progress

    columns, found = columns_from(args), expand(files)
    print_notes(found)
    parts = []
    with Progress(count_rows(found, columns, args.kind), "rows") as progress:
        for part in stream(found, columns, args.kind):
            parts.append(part)
            progress.advance(len(part) + part.ignored)
    return joined(parts)


def _calibrator(chosen: str, settings: Mapping[str, Any]) -> Calibrator:
    from calibrant.calibrators import calibrator_class

    made = calibrator_class(chosen)
    known = inspect.signature(made).parameters
    values = {}
    for name, value in settings.items():
        if name not in known:
            if not known:
                raise InputError(f"{chosen} has no hyper-parameters, got '{name}'.")
            raise unknown_name(f"hyper-parameter of {chosen}", name, known)
        values[name] = tuple(value) if isinstance(value, list) else value
        _check_kind(chosen, name, values[name], known[name].default)
    return made(**values)


def _check_kind(chosen: str, name: str, value: Any, default: Any) -> None:
    """Require a value of the kind of the default: a number for a number, and so on."""
    for kind, expected in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float | None, "a number"),
        (str, "a text"),
    ):
        if isinstance(default, kind):
            wanted = kind | int if isinstance(0.5, kind) else kind  # 1 is a number as 1.0 is.
            wrong = not isinstance(value, wanted) or isinstance(value, bool) != (kind is bool)
            if wrong or (isinstance(value, int | float) and not abs(value) < _TOO_MUCH):
                raise InputError(
                    f"{chosen} expects {expected} for {name}, got '{shortened(str(value))}'."
                )
            return


def _content(calibrator: Calibrator, output: Path) -> dict[str, Any]:
    """Return the document's keys, the same for all; ``details`` has what only some report."""
    fitted = dict(calibrator.fitted_on_)
    common = ("n", "ignored", "kind", "nll_before", "nll_after", "warnings", "version")
    return {
        "calibrator": calibrator.name,
        "method": calibrator.name,  # Its old key, until the format changes.
        "output": str(output),
        "fell_back": calibrator.fell_back_,
        **{name: fitted.pop(name) for name in common},
        "details": fitted,
    }


def _print(calibrator: Calibrator, args: argparse.Namespace) -> None:
    from calibrant.charts.numbers import counted

    fitted = calibrator.fitted_on_
    if args.json:
        print(document("fit", _content(calibrator, args.output)))
        return
    for warning in fitted["warnings"]:
        print(f"calibrant fit: {printable(warning)}", file=sys.stderr)
    saved = printable(str(args.output))
    print(
        f"{calibrator.name}, fitted on {counted(fitted['n'], 'example')} "
        f"({fitted['ignored']:,} ignored): "
        f"NLL {fitted['nll_before']:.4f} -> {fitted['nll_after']:.4f}\n"
        f"Learned: {printable(calibrator.describe())}\nSaved: {saved}"
    )
    if args.output.suffix != ".onnx":  # Which onnxruntime applies.
        print(f"\nNext: {printable(apply_command(args.output))}")
