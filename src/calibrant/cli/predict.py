"""``calibrant predict``: predict texts, images and masks, with calibrated confidences."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import add_device, add_engine, add_run, add_trust
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.cli.predict_blocks import Lines
    from calibrant.cli.predict_input import Input, Row
    from calibrant.tasks.predictor import Acceptance, Predictor

__all__ = ["add_parser", "run"]

# Options of entities, and what they are without being given.
_OF_ENTITIES = {"reduction": "auto", "sentences": None, "tokens": False}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "predict",
        help="predict texts, images and masks, with honest confidences",
        description="Predict with the model of a training run or an export: entities in texts, "
        "classes of texts or images, masks of images, each with calibrated confidence. Texts are "
        "split into sentences and words in the same way as the training data.",
    )
    add_run(parser, " or of 'calibrant export'")
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        help="a text, a .txt file with one text per line, a .jsonl or .csv file with a 'text' in "
        "each line, whose other fields are kept (standard input, one text per line); for images a "
        "file, a folder, or a .npy or .npz file of bytes",
    )
    _add_accepting(parser)
    _add_entities(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON line per input")
    parser.add_argument(
        "--field",
        metavar="NAME",
        help="write the predictions into this field of each line; the fields of the input stay",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write .jsonl, one line per input, or .csv; after a kill, the same command continues "
        "where it stopped",
    )
    parser.add_argument(
        "--masks",
        metavar="FOLDER",
        type=Path,
        help="masks only: write NAME.png with the number of each pixel's class (255: not accepted) "
        "and NAME.confidence.png (255: certain)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    add_device(parser)
    add_engine(parser, "ray")
    parser.add_argument(
        "--jobs",
        type=int,
        help="--engine ray: models on each node, which share its cores and GPUs (one per GPU; one "
        "without GPUs)",
    )
    add_trust(parser)
    parser.set_defaults(run=run)
    parser.parse_known_args = partial(_text_last, parser.parse_known_args)


def _add_accepting(parser: Any) -> None:
    parser.add_argument(
        "--top-k",
        type=int,
        default=1,
        metavar="K",
        help="show the K most probable classes, or types of an entity (1)",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        default=0.0,
        help="do not accept predictions below this confidence (0)",
    )
    parser.add_argument(
        "--target-risk",
        type=float,
        metavar="SHARE",
        help="accept predictions so that at most this share of them is wrong; the threshold is "
        "chosen on the validation split, and the guarantee is printed",
    )
    parser.add_argument(
        "--level", type=float, default=0.9, help="probability that the guarantee holds (0.9)"
    )
    parser.add_argument(
        "--policy",
        metavar="FILE|NAME",
        help="accept by this policy of 'calibrant guarantee', or of the export, by name",
    )


def _add_entities(parser: Any) -> None:
    group = parser.add_argument_group(
        "entities",
        "An entity has its own confidence; in brackets are its words, each with that of its tag. "
        "The confidence of a tag holds on average over all words, most of which are O, so that an "
        "entity can be surer than its words.",
    )
    group.add_argument(
        "--reduction",
        choices=("auto", "product", "min", "mean"),
        default="auto",
        help="how to combine the confidences of an entity's words into the number from which the "
        "confidence of the entity is learned on the validation split; auto chooses the best (auto)",
    )
    group.add_argument(
        "--sentences",
        action=argparse.BooleanOptionalAction,
        help="split texts into sentences, or keep them whole (default: as in the training data)",
    )
    group.add_argument(
        "--tokens",
        action="store_true",
        help="texts are already split into words: by spaces, or in .jsonl as a list 'tokens'; "
        "confidences and guarantees are then those of the corpus' words",
    )


def _text_last(parse: Any, *given: Any, **named: Any) -> tuple[argparse.Namespace, list[str]]:
    """Find a text after the options too, which argparse does not before Python 3.12."""
    args, others = parse(*given, **named)
    if args.input is None and len(others) == 1 and not others[0].startswith("-"):
        args.input = others.pop()
    return args, others


def run(args: argparse.Namespace) -> int:
    """Predict, and print or write the predictions."""
    from calibrant.cli.predict_blocks import opened_engine, predicted_lines
    from calibrant.cli.predict_input import file_of
    from calibrant.cli.predict_output import check_output, written
    from calibrant.distributed.predicting import decided_here
    from calibrant.loading import load_run

    check_output(args, file_of(args.input))
    # On a cluster, the actors use the GPUs.
    device = args.device if args.engine is None else "cpu"
    predictor = load_run(args.model, device, trust_remote_code=args.trust_remote_code)
    options = _options(args, predictor)
    accept, streamed = decided_here(predictor, options)
    if (promise := accept.describe()) is not None:
        print(promise, file=sys.stderr)
    given = _read(args, predictor)
    with opened_engine(args, predictor) as engine:
        lines = partial(predicted_lines, engine, predictor, args, streamed, given.total)
        if args.output is not None:
            return written(args, predictor, accept, lines, given)
        _print(args, predictor, accept, lines, given)
    return 0


def _options(args: argparse.Namespace, predictor: Predictor) -> dict[str, Any]:
    """Return the options that the predictor takes; one that it lacks must not be given."""
    from calibrant.distributed.predicting import ACCEPTING

    options = {name: getattr(args, name) for name in ("top_k", *ACCEPTING)}
    for name, default in _OF_ENTITIES.items():
        if predictor.finds_entities:
            options[name] = getattr(args, name)
        elif getattr(args, name) != default:
            raise InputError(f"--{name} is for models of entities, which {args.model} is not.")
    if args.masks is not None and not predictor.makes_masks:
        raise InputError(f"--masks is for models of masks, which {args.model} is not.")
    return options


def _read(args: argparse.Namespace, predictor: Predictor) -> Input:
    from calibrant.cli.predict_input import PREDICTED, read_images, read_rows

    if predictor.unit == "images":
        return read_images(args.input)
    taken: tuple[str, ...] = ()
    if args.json or args.output is not None:
        taken = PREDICTED if args.field is None else (args.field,)
    return read_rows(args.input, args.tokens, taken)


def _print(
    args: argparse.Namespace, predictor: Predictor, accept: Acceptance, lines: Lines, given: Input
) -> None:
    from calibrant.cli.predict_output import json_line, masked_rows, printed_lines
    from calibrant.metrics.tags import TagSet

    show: Callable[[Row, Any], str] = partial(json_line, field=args.field, accept=accept)
    if not args.json:
        types = TagSet.of(predictor.labels).types if predictor.finds_entities else ()
        colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        show = partial(printed_lines, types=types if colored else ())
    for texts in lines(show, masked_rows(args, given.rows)):
        sys.stdout.writelines(texts)
