"""``calibrant review``: let people review what a model is unsure of, by expected errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import add_address, add_device, add_trust
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.reviewing import Document
    from calibrant.tasks.language.splitter_choice import Cutting

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "review",
        help="review predicted entities in the browser, the least sure documents first",
        description="Find the entities of each text with a training run or an export and open a "
        "page to review them. Documents with the most expected errors per entity are first. Each "
        "decision is on the disk before the next document is shown; the same command continues a "
        "review.",
    )
    parser.add_argument(
        "input",
        metavar="FILE",
        help="texts: .txt with one per line, .jsonl or .csv with 'text' and optionally 'id'",
    )
    parser.add_argument(
        "--run", dest="model", metavar="RUN", help="folder of 'calibrant train' or 'export'"
    )
    parser.add_argument(
        "-o",
        "--decisions",
        type=Path,
        metavar="FILE",
        help="file of the decisions (FILE.review.jsonl)",
    )
    parser.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="a type that the model lacks"
    )
    parser.add_argument(
        "--export",
        nargs=2,
        action="append",
        default=[],
        metavar=("FORMAT", "FILE"),
        help="write the reviewed documents and exit: conll, jsonl, label-studio, or predicted "
        "(the predictions of the model); may be repeated",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace exported files")
    add_address(parser)
    add_device(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export, or predict and open the page."""
    path = args.decisions or Path(f"{args.input}.review.jsonl")
    if args.export:
        return _export(args, path)
    if args.model is None:
        raise InputError("Name the model that finds the entities: --run RUN.")
    from calibrant.metrics.tags import TagSet
    from calibrant.reviewing import Decisions
    from calibrant.reviewing.application import review_app
    from calibrant.serving.access import LOOPBACK
    from calibrant.serving.running import is_local, read_token, run_application

    token = read_token(args.host, args.token_file)
    documents, labels = _documents(args)
    types = [*TagSet.of(labels).types, *args.type]
    application = review_app(
        documents,
        Decisions(path, documents),
        types,
        token=token,
        hosts=LOOPBACK if is_local(args.host) else None,
    )
    what = f"{len(documents):,} documents, decisions in {path}: review them"
    run_application(application, args.host, args.port, what)
    return 0


def _documents(args: argparse.Namespace) -> tuple[list[Document], tuple[str, ...]]:
    from itertools import tee

    from calibrant.cli.predict_input import file_of, read_rows
    from calibrant.loading import load_run
    from calibrant.progress import Progress
    from calibrant.reviewing.documents import of_prediction

    if file_of(args.input) is None:
        raise InputError(f"There is no file {args.input}.")
    predictor = load_run(args.model, args.device, trust_remote_code=args.trust_remote_code)
    if not predictor.finds_entities:
        raise InputError(f"{args.model} finds no entities: review is for runs of '--task ner'.")
    given = read_rows(args.input, tokens=False, taken=())
    rows, again = tee(given.rows)
    found: dict[str, Document] = {}
    with Progress(given.total, "texts") as progress:
        predictions = predictor.stream(row["text"] for row in again)
        for number, (row, prediction) in enumerate(zip(rows, predictions, strict=True), start=1):
            name = str(row.get("id", number))
            if name in found:
                raise InputError(f"{args.input}: two texts have the id '{name}'.")
            found[name] = of_prediction(name, prediction)
            progress.advance()
    if not found:
        raise InputError(f"{args.input} has no texts.")
    return list(found.values()), predictor.labels


def _export(args: argparse.Namespace, path: Path) -> int:
    from calibrant.reviewing import Decisions, write_reviewed

    decisions = list(Decisions(path).latest.values())
    if not decisions:
        raise InputError(f"{path} has no decisions yet.")
    for kind, target in args.export:
        unfit = write_reviewed(
            target, decisions, kind, cutting=_cutting(args.model), overwrite=args.overwrite
        )
        print(f"{target}: {len(decisions):,} reviewed documents")
        if unfit:
            print(
                f"{unfit} entities that end inside a word were extended to the whole word.",
                file=sys.stderr,
            )
    return 0


def _cutting(model: str | None) -> Cutting:
    """Return how the run splits words, so that CoNLL has the run's own words."""
    from calibrant.inputs import read_json
    from calibrant.tasks.language.splitter_choice import Cutting
    from calibrant.tasks.language.words import PLAIN

    path = Path(model or "") / "words.json"
    if model is None or not path.is_file():
        return Cutting(PLAIN, sentences=True)
    return Cutting.from_dict(read_json(path, "not a description of how a run splits words"))
