"""``calibrant train``: from a corpus to a calibrated model, its predictions and a report."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.settings import parse_settings

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.experiments.record import Record

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "train",
        help="train a model with honest confidences",
        description="Train a token classifier and leave in RUN the model for transformers, its "
        "validation and test predictions, a fitted temperature, metrics and a report. Killed at "
        "any moment, the same command goes on from the last checkpoint to the same result.",
    )
    parser.add_argument("-o", "--output", metavar="RUN", type=Path, required=True, help="a folder")
    parser.add_argument("--json", action="store_true", help="print the record as JSON at the end")
    _add_what(parser.add_argument_group("what is trained"))
    _add_how(parser.add_argument_group("how it is trained"))
    _add_where(parser.add_argument_group("where it runs (no part of the recipe)"))
    parser.set_defaults(run=run)


def _add_what(group: Any) -> None:
    group.add_argument("--task", default="ner", help="ner, named entity recognition, so far")
    group.add_argument(
        "--data",
        required=True,
        metavar="NAME|FOLDER",
        help="a corpus by name (conll2003, ncbi-disease, wikiann-en, gum, wnut17), found under "
        "--data-dir, or a folder with train, (dev) and test .conll files",
    )
    group.add_argument(
        "--model",
        default="minilm",
        metavar="NAME|FOLDER",
        help="encoder: minilm, tiny (small, from scratch), a folder or a hub name (minilm)",
    )
    group.add_argument(
        "--method",
        default="cross_entropy",
        help="'calibrant list methods' shows all (cross_entropy)",
    )
    group.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a parameter of the method, as JSON; may be given several times",
    )
    group.add_argument("--head-width", type=int, default=128, help="of hidden head layers (128)")
    group.add_argument("--head-depth", type=int, default=1, help="hidden layers of the head (1)")
    group.add_argument(
        "--head-activation", default="relu", help="relu, gelu, tanh or none between them (relu)"
    )


def _add_how(group: Any) -> None:
    group.add_argument(
        "--engine",
        default="lean",
        help="lean: one process, fast, float32 or bfloat16; trainer: the Hugging Face Trainer, "
        "also under torchrun, also float16 (lean)",
    )
    group.add_argument("--seed", type=int, default=0, help="of head, batches, dropout, noise (0)")
    group.add_argument("--epochs", type=int, default=10, help="(10)")
    group.add_argument(
        "--batch", type=int, default=32, help="windows of one optimizer step, over all devices (32)"
    )
    group.add_argument(
        "--accumulate", type=int, default=1, help="parts to run a batch in, for less memory (1)"
    )
    group.add_argument("--learning-rate", type=float, default=5e-5, help="(5e-5)")
    group.add_argument("--weight-decay", type=float, default=0.01, help="(0.01)")
    group.add_argument("--warm-up", type=float, default=0.0, help="share of all steps (0)")
    group.add_argument(
        "--patience",
        type=int,
        default=0,
        help="stop after so many epochs without a better validation F1, and take the best epoch "
        "(0: never, take the last)",
    )
    group.add_argument(
        "--dtype", help="float32, bfloat16 or float16 (bfloat16 on CUDA, else float32)"
    )
    group.add_argument(
        "--max-length", type=int, default=512, help="pieces; longer sentences are windowed (512)"
    )


def _add_where(group: Any) -> None:
    group.add_argument("--data-dir", metavar="FOLDER", help="where corpora are (CALIBRANT_DATA)")
    group.add_argument("--device", help="cpu, cuda, cuda:1 (cuda where there is one)")
    group.add_argument(
        "--save-every",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="checkpoints inside an epoch, beside that at its end (300; lean engine)",
    )
    group.add_argument(
        "--tensorboard",
        action="store_true",
        help="write each epoch's numbers to RUN/tensorboard too, for 'tensorboard --logdir'",
    )
    group.add_argument(
        "--bootstrap", type=int, default=1000, help="replicates for the report's intervals (1000)"
    )


def run(args: argparse.Namespace) -> int:
    """Train, or read what is finished, and print the numbers."""
    from calibrant.extras import require

    for module in ("torch", "transformers"):
        require(module, "transformers", "Training")
    from calibrant.experiments.run import default_device, train
    from calibrant.experiments.run_folder import RunFolder

    device = args.device or default_device()
    there = RunFolder(args.output).finished
    record = train(
        _recipe(args, device),
        args.output,
        directory=args.data_dir,
        device=device,
        save_every=args.save_every,
        bootstrap=args.bootstrap,
        tensorboard=args.tensorboard,
    )
    if int(os.environ.get("RANK", "0")) == 0:
        _print(record, args, there)
    if "RANK" in os.environ:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()
    return 0


def _recipe(args: argparse.Namespace, device: str) -> Recipe:
    from calibrant.experiments.recipe import Recipe

    # A folder is the same from wherever the command is given.
    folders = {
        k: str(Path(v).resolve()) for k in ("data", "model") if Path(v := getattr(args, k)).is_dir()
    }
    names = (
        "task", "data", "model", "head_width", "head_depth", "head_activation", "engine", "seed",
        "epochs", "batch", "accumulate", "learning_rate", "weight_decay", "warm_up", "patience",
        "max_length",
    )  # fmt: skip
    return Recipe(
        **{**{name: getattr(args, name) for name in names}, **folders},
        method=args.method.replace("-", "_"),
        method_options=parse_settings(args.settings),
        dtype=args.dtype or ("float32" if device == "cpu" else "bfloat16"),
    )


def _print(record: Record, args: argparse.Namespace, there: bool) -> None:
    from calibrant.cli.table import render_table
    from calibrant.experiments.record import without_nan

    if args.json:
        content = {"results": record.results, "training": record.training}
        told = {"run": str(args.output), "finished_before": there, **without_nan(content)}
        print(json.dumps(told))
        return
    if there:
        print(f"{args.output} is finished; it is not trained again.")
    names = {
        "entity_f1": "F1",
        "ece": "ECE",
        "nll": "NLL",
        "entity_ece": "entity ECE",
        "apcr": "APCR",
    }
    rows = []
    for kind, title in (("identity", "as trained"), ("temperature", "with temperature")):
        numbers = record.results[kind]["test"]
        rows.append([title, *(f"{numbers[name]:.4f}" for name in names)])
    print(render_table(["test", *names.values()], rows, right=range(1, 1 + len(names))))
    print(f"\nTemperature {record.results['temperature']['temperature']:.4f}")
    print(f"Report: {args.output / 'report.html'}")
    print(f'Try: calibrant predict {args.output} "Anna Lind lives in Paris ."')
