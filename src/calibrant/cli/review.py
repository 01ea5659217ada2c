"""``calibrant review``: let people review what a model is unsure of, by expected errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import add_address, add_device, add_trust
from calibrant.errors import InputError, printable
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from calibrant.reviewing import Document
    from calibrant.tasks.language.splitter_choice import Cutting
    from calibrant.tasks.predictor import Predictor

__all__ = ["add_parser", "named_texts", "run"]


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
        "--sample",
        type=int,
        metavar="N",
        help="review this many of the texts, drawn at random: what a promise of 'calibrant "
        "guarantee --reviewed' needs, unless all texts are reviewed",
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
    from calibrant.charts.numbers import counted
    from calibrant.metrics.tags import TagSet
    from calibrant.reviewing import Decisions
    from calibrant.reviewing.application import review_app
    from calibrant.serving.access import LOOPBACK
    from calibrant.serving.running import is_local, read_token, run_application

    _check_types(args.type)
    token = read_token(args.host, args.token_file)
    predictor = _predictor(args)
    documents = _documents(args, predictor)
    types = list(dict.fromkeys([*TagSet.of(predictor.labels).types, *args.type]))
    application = review_app(
        documents,
        Decisions(path, documents, predictor.fingerprints()),
        types,
        token=token,
        hosts=LOOPBACK if is_local(args.host) else None,
    )
    what = (
        f"{counted(len(documents), 'document')}, decisions in {printable(str(path))}: review them"
    )
    run_application(application, args.host, args.port, what)
    return 0


def _check_types(types: list[str]) -> None:
    """Refuse names that no tag of CoNLL can have."""
    for name in types:
        if not name or name != name.strip() or not name.isprintable():
            raise InputError(
                f"--type takes a name without tabs, line ends and outer spaces, got "
                f"{shortened(repr(name))}."
            )


def _predictor(args: argparse.Namespace) -> Predictor:
    from calibrant.cli.predict_input import file_of
    from calibrant.loading import load_run

    if file_of(args.input) is None:
        raise InputError(f"There is no file {args.input}.")
    predictor = load_run(args.model, args.device, trust_remote_code=args.trust_remote_code)
    if not predictor.finds_entities:
        raise InputError(f"{args.model} finds no entities: review is for runs of '--task ner'.")
    return predictor


def _documents(args: argparse.Namespace, predictor: Predictor) -> list[Document]:
    from calibrant.progress import Progress
    from calibrant.reviewing.documents import of_prediction

    texts = named_texts(args.input)
    if args.sample is not None:
        texts = _sample(texts, args.sample)
    with Progress(len(texts), "texts") as progress:
        found = []
        for name, prediction in zip(texts, predictor.stream(texts.values()), strict=True):
            found.append(of_prediction(name, prediction))
            progress.advance()
    return found


def named_texts(path: str | Path) -> dict[str, str]:
    """Return the texts of a file by their ids, or by the numbers of their lines."""
    from calibrant.cli.predict_input import read_rows

    found: dict[str, str] = {}
    for number, row in enumerate(read_rows(str(path), tokens=False, taken=()).rows, start=1):
        name = str(row.get("id", number))
        if name in found:
            raise InputError(f"{path}: two texts have the id '{shortened(name)}'.")
        found[name] = row["text"]
    if not found:
        raise InputError(f"{path} has no texts.")
    return found


def _sample(texts: dict[str, str], size: int) -> dict[str, str]:
    """Draw texts at random; the same command draws the same ones again."""
    if not 1 <= size <= len(texts):
        raise InputError(f"--sample must be between 1 and the {len(texts):,} texts, got {size:,}.")
    drawn = set(Random(0).sample(range(len(texts)), size))
    return {name: text for i, (name, text) in enumerate(texts.items()) if i in drawn}


def _export(args: argparse.Namespace, path: Path) -> int:
    from calibrant.charts.numbers import counted
    from calibrant.reviewing import Decisions, write_reviewed

    found = Decisions(path)
    decisions = list(found.latest.values())
    if not decisions:
        raise InputError(f"{path} has no decisions yet.")
    if found.damaged:
        are, them = ("is", "it") if found.damaged == 1 else ("are", "them")
        print(
            f"{counted(found.damaged, 'line')} of {printable(str(path))} {are} left out: a process "
            f"was killed while it wrote {them}.",
            file=sys.stderr,
        )
    for kind, target in args.export:
        unfit = write_reviewed(
            target, decisions, kind, cutting=_cutting(args.model), overwrite=args.overwrite
        )
        print(f"{printable(target)}: {counted(len(decisions), 'reviewed document')}")
        if unfit:
            ended = "that ends inside a word was" if unfit == 1 else "that end inside a word were"
            print(
                f"{counted(unfit, 'entity')} {ended} extended to the whole word.",
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
