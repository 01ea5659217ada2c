"""``calibrant wrap``: turn any fine-tuned model into a calibrated run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibrant.cli.document import document
from calibrant.cli.options import (
    add_data_dir,
    add_device,
    add_json,
    add_labels,
    add_trust,
    read_label_pairs,
)
from calibrant.errors import printable
from calibrant.tasks import all_tasks

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "wrap",
        help="calibrate a fine-tuned model without training it",
        description="Run a fine-tuned classifier of Hugging Face (images: also of timm) on the "
        "validation and test split of a corpus, fit its calibrator and the confidences of its "
        "entities, and write the report. Nothing is trained. RUN becomes a run like those of "
        "'calibrant train', for predict, evaluate, export, guarantee and adapt.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="folder of the model, or its name on the hub"
    )
    parser.add_argument(
        "--task",
        choices=[name for name, task in all_tasks().items() if task.wraps],
        required=True,
        help="what the model does",
    )
    parser.add_argument(
        "--data",
        metavar="NAME|FOLDER",
        required=True,
        help="corpus with validation and test data that the model was not trained on",
    )
    parser.add_argument(
        "-o", "--output", metavar="RUN", type=Path, required=True, help="write to this folder"
    )
    add_labels(parser)
    parser.add_argument(
        "--unseen-types",
        choices=("error", "drop"),
        default="error",
        help="ner: refuse entity types that the model does not have, or make them O (error)",
    )
    parser.add_argument(
        "--scheme",
        choices=("auto", "bio", "io"),
        default="auto",
        help="ner: io reads B- and I- of the model as one, for models whose B- only separates "
        "entities that touch (IOB1); auto finds such models (auto)",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        help="most subword tokens; longer sentences become windows, longer texts are cut (the "
        "model's own limit, at most 512)",
    )
    parser.add_argument(
        "--calibrator", default="auto", help="calibrator of the predictions; auto chooses one"
    )
    add_data_dir(parser)
    add_device(parser)
    parser.add_argument(
        "--bootstrap",
        type=int,
        default=1000,
        help="bootstrap replicates for the report's intervals (1000)",
    )
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Wrap the model, or read the finished run, and print the numbers."""
    from calibrant.extras import require

    require("torch", "transformers", "Running a model")
    from calibrant.cli.run_numbers import content, show
    from calibrant.cli.train import check_apart
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.wrapping import wrap_run

    check_apart(args.output, (args.data, args.model))
    there = RunFolder(args.output).finished
    record = wrap_run(
        args.model,
        args.task,
        args.data,
        args.output,
        labels=None if args.labels is None else read_label_pairs(args.labels),
        unseen_types=args.unseen_types,
        scheme=args.scheme,
        max_length=args.max_length,
        calibrator=args.calibrator,
        directory=args.data_dir,
        device=args.device,
        bootstrap=args.bootstrap,
        trust_remote_code=args.trust_remote_code,
    )
    if args.json:
        print(document("wrap", content(record, args.output, there)))
        return 0
    if there:
        print(f"{printable(str(args.output))} is already finished; nothing was done.")
    print(show(record, args.output))
    return 0
