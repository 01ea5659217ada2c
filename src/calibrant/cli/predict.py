"""``calibrant predict``: find entities in raw text, with calibrated confidences."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import add_trust
from calibrant.cli.predict_input import Row, file_of, read_rows, words_of
from calibrant.errors import printable
from calibrant.json_values import FORMAT, json_values

if TYPE_CHECKING:
    from calibrant.comparison.risk_control import Guarantee
    from calibrant.tasks.ner.predictor import Entity, Prediction, Predictor

__all__ = ["add_parser", "run"]

_COLORS = (36, 33, 35, 32, 34, 31)  # One per entity type, in turn.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "predict",
        help="find entities in texts, with honest confidences",
        description="Find entities in texts with the model of a training run. Print the type, "
        "place and calibrated confidence of each entity and of its words. Texts are split into "
        "sentences and words in the same way as the training data.",
    )
    parser.add_argument(
        "model", metavar="RUN", type=Path, help="folder of a finished 'calibrant train'"
    )
    parser.add_argument(
        "input",
        metavar="TEXT|FILE",
        nargs="?",
        help="a text, a .txt file with one text per line, or a .jsonl file with a 'text' in each "
        "line, whose other fields are kept (standard input, one text per line)",
    )
    _add_cutting(parser)
    parser.add_argument(
        "--reduction",
        choices=("auto", "product", "min", "mean"),
        default="auto",
        help="how to combine the confidences of an entity's words into the number from which the "
        "confidence of the entity is learned on the validation split; auto chooses the best (auto)",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        default=0.0,
        help="leave out entities below this confidence (0)",
    )
    parser.add_argument(
        "--target-risk",
        type=float,
        metavar="SHARE",
        help="leave out entities so that at most this share of the others is wrong; the threshold "
        "is chosen on the validation split, and the guarantee is printed",
    )
    parser.add_argument(
        "--level", type=float, default=0.9, help="probability that the guarantee holds (0.9)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line per text")
    parser.add_argument(
        "--field",
        metavar="NAME",
        help="write the predictions into this field of each line, beside the fields of the input",
    )
    parser.add_argument(
        "-o", "--output", metavar="JSONL", type=Path, help="write one JSON line per text here"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--device", help="cpu or cuda (cuda if there is one)")
    add_trust(parser)
    parser.set_defaults(run=run)
    parser.parse_known_args = partial(_text_last, parser.parse_known_args)


def _add_cutting(parser: Any) -> None:
    parser.add_argument(
        "--sentences",
        action=argparse.BooleanOptionalAction,
        help="split texts into sentences, or keep them whole (default: as in the training data)",
    )
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="texts are already split into words: by spaces, or in .jsonl as a list 'tokens'; "
        "confidences and guarantees are then those of the corpus' own words",
    )


def _text_last(parse: Any, *given: Any, **named: Any) -> tuple[argparse.Namespace, list[str]]:
    """Find a text after the options too, which argparse does not before Python 3.12."""
    args, others = parse(*given, **named)
    if args.input is None and len(others) == 1 and not others[0].startswith("-"):
        args.input = others.pop()
    return args, others


def run(args: argparse.Namespace) -> int:
    """Predict, and print or write the predictions."""
    from calibrant.extras import require
    from calibrant.outputs import check_writable, new_file

    for module in ("torch", "transformers"):
        require(module, "transformers", "Predicting with a trained model")
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.prediction import load_run

    if args.output is not None:
        inputs = [path for path in [file_of(args.input)] if path is not None]
        inputs += RunFolder(args.model).files()
        check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    written = args.json or args.output is not None
    rows, total = read_rows(args.input, args.tokens, written, args.field)
    predictor = load_run(args.model, args.device, trust_remote_code=args.trust_remote_code)
    line = partial(_line, field=args.field)
    if args.target_risk is not None:
        guarantee = predictor.threshold(
            args.target_risk, args.level, args.reduction, tokens=args.tokens
        )
        print(guarantee, file=sys.stderr)
        line = partial(line, guarantee=guarantee)
    found = _predicted(predictor, rows, total, args)
    if args.output is None:
        _print(found, line if args.json else None, predictor)
        return 0
    with (
        new_file(args.output, overwrite=args.overwrite) as unfinished,
        unfinished.open("w", encoding="utf-8") as file,
    ):
        count = sum(file.write(line(row, prediction)) > 0 for row, prediction in found)
    print(f"{count:,} texts.\nWritten: {printable(str(args.output))}")
    return 0


def _predicted(
    predictor: Predictor, rows: Iterator[Row], total: int | None, args: argparse.Namespace
) -> Iterator[tuple[Row, Prediction]]:
    from calibrant.progress import Progress

    rows, again = tee(rows)
    texts = (words_of(row) if args.tokens else row["text"] for row in again)
    found = predictor.stream(
        texts,
        min_confidence=args.min_confidence,
        target_risk=args.target_risk,
        level=args.level,
        reduction=args.reduction,
        sentences=args.sentences,
        tokens=args.tokens,
    )
    with Progress(total, "texts") as progress:
        for row, prediction in zip(rows, found, strict=True):
            yield row, prediction
            progress.advance()


def _print(
    found: Iterator[tuple[Row, Prediction]],
    line: Callable[[Row, Prediction], str] | None,
    predictor: Predictor,
) -> None:
    from calibrant.metrics.tags import TagSet

    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    types = TagSet.of(predictor.labels).types
    colors = {kind: _COLORS[i % len(_COLORS)] for i, kind in enumerate(types)} if colored else {}
    for row, prediction in found:
        if line is not None:
            sys.stdout.write(line(row, prediction))
        else:
            print(*_lines(prediction, colors), sep="\n")


def _line(
    row: Row, prediction: Prediction, *, field: str | None, guarantee: Guarantee | None = None
) -> str:
    """Return a line of JSON: the fields of the input and the predictions."""
    found: Row = {"format": FORMAT, **prediction.to_dict()}
    if guarantee is not None:
        found["guarantee"] = {**asdict(guarantee), "meaning": str(guarantee)}
    if field is not None:
        found = {field: {k: v for k, v in found.items() if k != "text" or k not in row}}
    return json.dumps(json_values({**row, **found}), ensure_ascii=False) + "\n"


def _lines(prediction: Prediction, colors: dict[str, int]) -> Iterator[str]:
    """Yield the text with its accepted entities marked, then a line for each entity."""
    text, place, pieces = prediction.text, 0, list[str]()
    for entity in prediction.entities:
        pieces.append(printable(text[place : entity.start]))
        pieces.append(_colored(text[entity.start : entity.end], colors.get(entity.type)))
        place = entity.end
    yield "".join([*pieces, printable(text[place:])])
    for entity in prediction.entities:
        yield f"  {_described(entity, colors.get(entity.type))}"
    for entity in prediction.abstained:
        yield f"  {_described(entity, None)}   (not sure enough)"


def _described(entity: Entity, color: int | None) -> str:
    words = ", ".join(f"{token.text} {token.confidence:.3f}" for token in entity.tokens)
    name = _colored(f"{entity.type:<6}", color)
    place = f"{entity.start}–{entity.end}"
    text = printable(f"{entity.text}   [{words}]")
    return f"{name} {entity.confidence:.3f}   {place:<9} {text}"


def _colored(text: str, color: int | None) -> str:
    text = printable(text)
    return text if color is None else f"\x1b[1;{color}m{text}\x1b[0m"
