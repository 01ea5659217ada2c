"""``calibrant predict``: entities of raw text with confidences that can be trusted."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from calibrant.cli.options import add_trust
from calibrant.errors import InputError
from calibrant.inputs import parse_json
from calibrant.json_values import FORMAT

if TYPE_CHECKING:
    from calibrant.prediction.predictor import Entity, Prediction, Predictor

__all__ = ["add_parser", "run"]

_COLORS = (36, 33, 35, 32, 34, 31)  # One per entity type, in turn.
_FILES = (".txt", ".jsonl")
# What is no text by lines, and would be read as if it were.
_OTHER_FILES = (".csv", ".tsv", ".json", ".parquet", ".conll", ".gz", ".zip", ".pdf", ".docx")
_ROW = dict[str, Any]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "predict",
        help="entities of texts, with honest confidences",
        description="Find the entities of texts with the model of a training run: type, place, "
        "calibrated confidence, and that of each word. A text is split into words by calibrant: "
        "abbreviations, numbers, words, and every other sign by itself.",
    )
    parser.add_argument("model", metavar="RUN", type=Path, help="a folder of 'calibrant train'")
    parser.add_argument(
        "input",
        metavar="TEXT|FILE",
        nargs="?",
        help="a text; a .txt file, one text per line; or .jsonl with a 'text' in each line, whose "
        "other fields are kept (standard input, one text per line)",
    )
    parser.add_argument(
        "--reduction",
        choices=("auto", "product", "min", "mean"),
        default="auto",
        help="one number from the confidences of an entity's words, from which that of the entity "
        "is learned on the validation split (auto: the one that does best there)",
    )
    parser.add_argument(
        "--min-confidence", type=float, default=0.0, help="abstain from entities below this (0)"
    )
    parser.add_argument(
        "--target-risk",
        type=float,
        metavar="SHARE",
        help="abstain so that at most this share of the accepted entities is wrong; the threshold "
        "is chosen on the validation split, with the guarantee that is printed",
    )
    parser.add_argument(
        "--level", type=float, default=0.9, help="probability that the guarantee holds (0.9)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line per text")
    parser.add_argument(
        "-o", "--output", metavar="JSONL", type=Path, help="write one JSON line per text here"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    parser.add_argument("--device", help="cpu, cuda (cuda where there is one)")
    add_trust(parser)
    parser.set_defaults(run=run)
    parser.parse_known_args = partial(_text_last, parser.parse_known_args)


def _text_last(parse: Any, *given: Any, **named: Any) -> tuple[argparse.Namespace, list[str]]:
    """Find a text after the options too: until Python 3.12, argparse gives up an optional one."""
    args, others = parse(*given, **named)
    if args.input is None and len(others) == 1 and not others[0].startswith("-"):
        args.input = others.pop()
    return args, others


def run(args: argparse.Namespace) -> int:
    """Predict and print, or write."""
    from calibrant.extras import require
    from calibrant.outputs import check_writable, new_file

    for module in ("torch", "transformers"):
        require(module, "transformers", "Predicting with a trained model")
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.prediction.loading import load

    if args.output is not None:
        inputs = [path for path in [_file(args.input)] if path is not None]
        inputs += RunFolder(args.model).files()
        check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    rows, total = _rows(args.input)
    predictor = load(args.model, args.device, trust_remote_code=args.trust_remote_code)
    if args.target_risk is not None:
        print(predictor.threshold(args.target_risk, args.level, args.reduction), file=sys.stderr)
    found = _predicted(predictor, rows, total, args)
    if args.output is None:
        _print(found, args.json, predictor)
        return 0
    with (
        new_file(args.output, overwrite=args.overwrite) as unfinished,
        unfinished.open("w", encoding="utf-8") as file,
    ):
        count = sum(_write(file, row, prediction) for row, prediction in found)
    print(f"{count:,} texts.\nWritten: {args.output}")
    return 0


def _predicted(
    predictor: Predictor, rows: Iterator[_ROW], total: int | None, args: argparse.Namespace
) -> Iterator[tuple[_ROW, Prediction]]:
    from calibrant.progress import Progress

    rows, again = tee(rows)
    texts = (row["text"] for row in again)
    found = predictor.stream(
        texts,
        min_confidence=args.min_confidence,
        target_risk=args.target_risk,
        level=args.level,
        reduction=args.reduction,
    )
    with Progress(total, "texts") as progress:
        for row, prediction in zip(rows, found, strict=True):
            yield row, prediction
            progress.advance()


def _rows(given: str | None) -> tuple[Iterator[_ROW], int | None]:
    """The texts, each with what else its line holds, and their number where it is known."""
    if given is None or given == "-":
        return _parsed_rows(sys.stdin.buffer, "standard input", json_lines=False), None
    path = _file(given)
    if path is None:
        if Path(given).suffix.lower() in (*_FILES, *_OTHER_FILES) and " " not in given:
            raise InputError(f"There is no file {given}.")
        _check_text(given, "The text that was given")
        return iter([{"text": given}]), 1
    if path.suffix.lower() in _OTHER_FILES:
        raise InputError(f"{path}: expected a .txt file with a text on each line, or .jsonl.")
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    return _file_rows(path), total


def _file(given: str | None) -> Path | None:
    """The file that is meant, where it is one and not the text itself."""
    named = given is not None and len(given) < 4096 and "\n" not in given and "\0" not in given
    return path if named and (path := Path(str(given))).is_file() else None


def _file_rows(path: Path) -> Iterator[_ROW]:
    with path.open("rb") as file:
        yield from _parsed_rows(file, str(path), json_lines=path.suffix.lower() == ".jsonl")


def _parsed_rows(file: Iterable[bytes], name: str, *, json_lines: bool) -> Iterator[_ROW]:
    """One row per line; blank lines of jsonl are none, those of plain text are empty texts."""
    for number, raw in enumerate(file, start=1):
        where = f"{name}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(f"{where} is not UTF-8; convert it with 'iconv'.") from None
        if not json_lines:
            yield {"text": line}
        elif line.strip():
            yield _parsed(line, where)


def _parsed(line: str, where: str) -> _ROW:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise InputError(f"{where}: expected an object with a 'text', got {line[:60]!r}.")
    _check_text(row["text"], where)
    return row


def _check_text(text: str, where: str) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(f"{where}: the text holds half of a character; is it UTF-8?")


def _print(found: Iterator[tuple[_ROW, Prediction]], as_json: bool, predictor: Predictor) -> None:
    from calibrant.metrics.tags import TagSet

    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    types = TagSet.of(predictor.labels).types
    colors = {kind: _COLORS[i % len(_COLORS)] for i, kind in enumerate(types)} if colored else {}
    for row, prediction in found:
        if as_json:
            _write(sys.stdout, row, prediction)
        else:
            print(*_lines(prediction, colors), sep="\n")


def _write(file: IO[str], row: _ROW, prediction: Prediction) -> int:
    file.write(
        json.dumps({**row, "format": FORMAT, **prediction.to_dict()}, ensure_ascii=False) + "\n"
    )
    return 1


def _lines(prediction: Prediction, colors: dict[str, int]) -> Iterator[str]:
    """The text with its accepted entities marked, then a line for each entity."""
    text = prediction.text
    for entity in reversed(prediction.entities):
        marked = _colored(text[entity.start : entity.end], colors.get(entity.type))
        text = text[: entity.start] + marked + text[entity.end :]
    yield text
    for entity in prediction.entities:
        yield f"  {_told(entity, colors.get(entity.type))}"
    for entity in prediction.abstained:
        yield f"  {_told(entity, None)}   (not sure enough)"


def _told(entity: Entity, color: int | None) -> str:
    words = ", ".join(f"{token.text} {token.confidence:.3f}" for token in entity.tokens)
    name = _colored(f"{entity.type:<6}", color)
    place = f"{entity.start}–{entity.end}"
    return f"{name} {entity.confidence:.3f}   {place:<9} {entity.text}   [{words}]"


def _colored(text: str, color: int | None) -> str:
    return text if color is None else f"\x1b[1;{color}m{text}\x1b[0m"
