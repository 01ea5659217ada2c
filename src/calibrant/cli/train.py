"""``calibrant train``: from a corpus to a calibrated model, its predictions and a report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.settings import parse_settings
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.experiments.record import Record

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "train",
        help="train a model with honest confidences",
        description="Train a classifier of words, texts or images and leave in RUN the model, its "
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
    group.add_argument("--task", default="ner", help="'calibrant list tasks' shows all (ner)")
    group.add_argument(
        "--data",
        required=True,
        metavar="NAME|FOLDER|FILE",
        help="by name, found under --data-dir (ner: conll2003, ncbi-disease, wikiann-en, gum, "
        "wnut17, synthetic; text: 20newsgroups, clinc150, synthetic; image: digits, cifar10; "
        "segmentation: shapes), or a folder with train, (dev) and test parts; docs/tasks.md tells "
        "the formats",
    )
    group.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="of text: minilm, tiny (small, from scratch), a folder or a hub name (minilm); of "
        "images: lenet, tiny, resnet18, resnet50, vit_tiny, mlp_mixer, … (lenet); of masks: unet, "
        "fcn_resnet50, deeplabv3_resnet50 (unet)",
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
    group.add_argument(
        "--head-width", type=int, help="of hidden head layers (128); of the U-Net (16)"
    )
    group.add_argument("--head-depth", type=int, help="hidden layers of the head (1; of images 0)")
    group.add_argument("--head-activation", help="relu, gelu, tanh or none between them (relu)")
    group.add_argument(
        "--shift",
        nargs="+",
        default=[],
        metavar="NAME",
        help="what to test on besides: corruptions such as typos-3 ('calibrant list corruptions' "
        "shows all), other corpora, folders or files",
    )


def _add_how(group: Any) -> None:
    group.add_argument(
        "--engine",
        help="lean: fast, float32 or bfloat16; trainer: the Hugging Face Trainer, also float16, "
        "not for images; both also under torchrun (lean)",
    )
    group.add_argument(
        "--seed",
        type=int,
        nargs="+",
        default=[0],
        help="of head, batches, dropout, noise; several, as in --seed 0 1 2, train RUN/seed-0 and "
        "so on, and print means with intervals (0)",
    )
    group.add_argument("--epochs", type=int, help="(10; of images 20, of masks 40)")
    group.add_argument(
        "--batch",
        type=int,
        help="windows, texts or images of one optimizer step, over all devices (32; images "
        "64, masks 16)",
    )
    group.add_argument(
        "--accumulate", type=int, help="parts to run a batch in, for less memory (1)"
    )
    group.add_argument(
        "--optimizer", help="adamw or sgd, with Nesterov momentum (adamw; images sgd)"
    )
    group.add_argument(
        "--learning-rate", type=float, help="(ner 5e-5, text 1e-4, image 0.1, segmentation 5e-3)"
    )
    group.add_argument("--momentum", type=float, help="of sgd (0.9)")
    group.add_argument("--weight-decay", type=float, help="(0.01; of images 5e-4)")
    group.add_argument(
        "--decay", help="linear, cosine, or step at 50 and 75 %% (linear; images cosine)"
    )
    group.add_argument("--warm-up", type=float, help="share of all steps (0; of images 0.1)")
    group.add_argument(
        "--clip", type=float, help="largest norm of the gradient; 0: any (1; images 0)"
    )
    group.add_argument(
        "--augment", help="of images: none, or crop, flip and cutout joined by + (crop)"
    )
    group.add_argument(
        "--image-size", type=int, help="side to which images are brought (0: all are of one size)"
    )
    group.add_argument(
        "--compile",
        action="store_const",
        const=True,
        help="compile the encoder of images with torch.compile",
    )
    group.add_argument(
        "--patience",
        type=int,
        help="stop after so many epochs without a better validation score (F1, or accuracy), and "
        "take the best epoch (0: never, take the last)",
    )
    group.add_argument(
        "--dtype", help="float32, bfloat16 or float16 (bfloat16 on CUDA, else float32)"
    )
    group.add_argument(
        "--max-length",
        type=int,
        help="pieces; longer sentences are windowed (512), longer texts shortened (256)",
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

    require("torch", "transformers", "Training")
    from calibrant.experiments.run import default_device, train
    from calibrant.experiments.run_folder import RunFolder

    device = args.device or default_device()
    recipes = {folder: _recipe(args, seed, device) for seed, folder in _folders(args)}
    there = {}
    for folder, recipe in recipes.items():  # Before the work, not after it.
        RunFolder(folder).check(recipe)
        there[folder] = RunFolder(folder).finished
    records = {}
    for folder, recipe in recipes.items():
        if len(recipes) > 1 and _is_first():
            print(f"Seed {recipe.seed}: {folder}", file=sys.stderr)
        records[folder] = train(
            recipe,
            folder,
            directory=args.data_dir,
            device=device,
            save_every=args.save_every,
            bootstrap=args.bootstrap,
            tensorboard=args.tensorboard,
        )
    if _is_first():
        _print(records, there, args.json)
    _leave_the_group()
    return 0


def _folders(args: argparse.Namespace) -> list[tuple[int, Path]]:
    """Each seed with its folder: RUN itself for one, RUN/seed-N for several."""
    from calibrant.demo.spread import MOST_SEEDS
    from calibrant.experiments.run_folder import RunFolder

    seeds: list[int] = args.seed
    if len(seeds) == 1:
        return [(seeds[0], args.output)]
    if len(set(seeds)) < len(seeds) or len(seeds) > MOST_SEEDS:
        raise InputError(f"--seed takes up to {MOST_SEEDS} different seeds, got {seeds}.")
    if RunFolder(args.output).recipe() is not None:
        raise InputError(f"{args.output} is the run of one seed: name a new folder for several.")
    return [(seed, args.output / f"seed-{seed}") for seed in seeds]


def _is_first() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


def _leave_the_group() -> None:
    if "RANK" in os.environ:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()


def _recipe(args: argparse.Namespace, seed: int, device: str) -> Recipe:
    from calibrant.experiments.recipe import Recipe

    # A folder or file is the same from wherever the command is given.
    places = {
        k: str(Path(v).resolve())
        for k in ("data", "model")
        if (v := getattr(args, k)) is not None and Path(v).exists()
    }
    given = {f.name: getattr(args, f.name, None) for f in fields(Recipe)}
    return Recipe.from_dict(
        {
            **{name: value for name, value in given.items() if value is not None},
            **places,
            "seed": seed,
            "shift": [str(Path(n).resolve()) if Path(n).exists() else n for n in args.shift],
            "method": args.method.replace("-", "_"),
            "method_options": parse_settings(args.settings),
            "dtype": args.dtype or ("float32" if device == "cpu" else "bfloat16"),
        }
    )


def _print(records: Mapping[Path, Record], there: Mapping[Path, bool], as_json: bool) -> None:
    from calibrant.cli.run_numbers import content, content_over_seeds, show, show_over_seeds

    folder, record = next(iter(records.items()))
    several = len(records) > 1
    if as_json:
        one = content(record, folder, there[folder])
        print(json.dumps(content_over_seeds(records, there) if several else one))
        return
    for finished in (path for path in records if there[path]):
        print(f"{finished} is finished; it is not trained again.")
    print(show_over_seeds(records) if several else show(record, folder))
