"""``calibrant export``: write a run as one folder that predicts without torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibrant.cli.options import add_data_dir, add_json, add_output, add_run, add_trust
from calibrant.errors import InputError, printable

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "export",
        help="write a run as one folder that predicts without torch",
        description="Write everything that prediction needs into one folder: the model as ONNX, "
        "tokenizer, splitter, labels, calibrators, policies and a manifest with checksums. "
        "'calibrant predict FOLDER' and calibrant.load(FOLDER) need only onnxruntime, tokenizers "
        "and NumPy.",
    )
    add_run(parser)
    add_output(parser, "write to this folder", metavar="FOLDER", old="folder")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="store weights in 8 bits (texts and entities), and print how this changes the results "
        "on the test split",
    )
    parser.add_argument(
        "--fold-temperature",
        action="store_true",
        help="write the model for transformers instead, with the temperature of the run in its "
        "last layer: the softmax of transformers.pipeline is then calibrated",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="add a policy of 'calibrant guarantee' to the export; may be repeated",
    )
    add_data_dir(parser, ", for --int8")
    add_json(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export, and print what came of it."""
    from calibrant.extras import require
    from calibrant.outputs import check_folder

    require("torch", "onnx", "Exporting a run")
    check_folder(args.output, args.overwrite)
    if args.output.exists() and args.output.resolve() in (
        args.model.resolve(),
        *args.model.resolve().parents,
    ):
        raise InputError(f"{args.output} holds the run that is exported: name another folder.")
    return _folded(args) if args.fold_temperature else _exported(args)


def _exported(args: argparse.Namespace) -> int:
    from calibrant.cli.document import document
    from calibrant.export import export_run

    made = export_run(
        args.model,
        args.output,
        int8=args.int8,
        policies=args.policy,
        directory=args.data_dir,
        overwrite=args.overwrite,
        trust_remote_code=args.trust_remote_code,
    )
    if args.json:
        quantised = None if made.quantised is None else vars(made.quantised)
        content = {"folder": str(made.folder), "bytes": made.bytes, "quantised": quantised}
        names = ("difference", "calibrated_difference")
        apart = {name: getattr(made, name) for name in names}
        print(document("export", {**content, **apart}))
        return 0
    after = made.calibrated_difference
    print(
        f"Probabilities differ from the run's by at most {made.difference:.1e} before calibration"
        + ("." if after is None else f", and by at most {after:.1e} after it.")
    )
    if made.quantised is not None:
        print(made.quantised)
    print(f"Written: {printable(str(made.folder))} ({made.bytes / 1e6:.1f} MB)")
    return 0


def _folded(args: argparse.Namespace) -> int:
    from calibrant.cli.document import document
    from calibrant.export import fold_temperature

    for name in ("int8", "policy"):
        if getattr(args, name):
            raise InputError(f"--fold-temperature writes a model for transformers: no --{name}.")
    temperature = fold_temperature(
        args.model,
        args.output,
        overwrite=args.overwrite,
        trust_remote_code=args.trust_remote_code,
    )
    if args.json:
        content = {"folder": str(args.output), "temperature": temperature}
        print(document("export", content))
        return 0
    print(f"Temperature {temperature:.4f} is in the last layer of the model.")
    if list(args.output.glob("*.py")):
        print("Its head is code in the folder: load it with trust_remote_code=True.")
    print(f"Written: {printable(str(args.output))}")
    return 0
