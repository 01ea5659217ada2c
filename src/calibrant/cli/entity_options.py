"""The options of ``--entities`` and ``--reviewed``, and the files that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from calibrant.entities import MatchedEntities
    from calibrant.reviewing import Decisions

__all__ = [
    "REVIEWED",
    "add_entity_options",
    "matched_files",
    "note_part",
    "refuse_options",
    "refuse_others",
    "renamed_types",
    "reviewed_run",
    "without_entities",
]

REVIEWED = "--reviewed"


def add_entity_options(
    parser: argparse.ArgumentParser, *, gold: bool = True, scores: bool = True
) -> None:
    """Add the options of entities; without ``gold`` those of ``apply``, which needs none.

    ``scores`` says whether entities without scores make sense.
    """
    group = parser.add_argument_group("entities of any tool")
    if gold:
        kinds = group.add_mutually_exclusive_group()
        kinds.add_argument(
            "--entities",
            action="store_const",
            const="--entities",
            help="the files are PREDICTED and GOLD: documents with entities, as the tools write "
            "them (.jsonl, .json)",
        )
        kinds.add_argument(
            "--reviewed",
            dest="entities",
            action="store_const",
            const=REVIEWED,
            help="the file has the decisions of 'calibrant review': what the model predicted, and "
            "what people decided",
        )
        group.add_argument(
            "--match",
            choices=("strict", "overlapping"),
            help="when an entity is right: same span and type, or same type and a shared "
            "character (audit: both; others: strict)",
        )
    if gold and scores:
        group.add_argument(
            "--without-scores",
            action="store_true",
            help="the tool gives no scores: learn the confidence from type and length only",
        )
    group.add_argument(
        "--type",
        dest="types",
        metavar="NAME=GOLD",
        action="append",
        default=[],
        help="the name in GOLD of a predicted type; 'NAME=' leaves it out, 'NAME=NAME' keeps a "
        "type that is not known; may be repeated",
    )
    group.add_argument("--spans", metavar="KEY", help="the group of spaCy's spans to read")


def without_entities(args: argparse.Namespace) -> None:
    """Refuse options that mean something for entities alone."""
    for option, default in (
        ("match", None),
        ("without_scores", False),
        ("types", []),
        ("spans", None),
    ):
        if getattr(args, option, default) != default:
            name = {"types": "type"}.get(option, option).replace("_", "-")
            raise InputError(f"--{name} is about entities: use it with --entities or --reviewed.")


def refuse_options(args: argparse.Namespace, *defaults: tuple[str, Any]) -> None:
    """Refuse options that mean nothing for entities, and all but two files, or one of decisions."""
    reviewed = args.entities == REVIEWED
    if len(args.files) != (1 if reviewed else 2):
        expected = "one file of decisions" if reviewed else "two files, PREDICTED and GOLD"
        raise InputError(f"{args.entities} takes {expected}, got {len(args.files)}.")
    refuse_others(args, *defaults)


def refuse_others(args: argparse.Namespace, *defaults: tuple[str, Any]) -> None:
    """Refuse options that mean nothing for entities, given with their defaults."""
    columns = [name for name in vars(args) if name.endswith(("_column", "_columns"))]
    for name, default in (*defaults, *((column, None) for column in columns), ("labels", None)):
        if getattr(args, name, default) != default:
            option = {"settings": "set"}.get(name, name).replace("_", "-")
            raise InputError(f"--{option} does not go with {args.entities}.")


def matched_files(
    args: argparse.Namespace, files: Sequence[str | Path] | None = None, *, complete: bool = False
) -> MatchedEntities:
    """Return the entities of PREDICTED next to those of GOLD; by default of the files given.

    A file of decisions has both; with ``complete``, it must have a decision about each document.
    """
    from calibrant.entities import match_entities, read_entities

    options: dict[str, Any] = {
        "renamed": renamed_types(args.types),
        "scores": not getattr(args, "without_scores", False),
    }
    if args.entities == REVIEWED:
        return _matched_decisions((files or args.files)[0], options, args, complete)
    predicted, gold = map(Path, files or args.files)
    if predicted.exists() and gold.exists() and predicted.samefile(gold):
        raise InputError(f"PREDICTED and GOLD are the same file, {predicted}.")
    gold_spans = args.spans if _has_spans(gold, args.spans) else None
    return match_entities(
        read_entities(predicted, args.spans).documents,
        read_entities(gold, gold_spans, gold=True).documents,
        **options,
    )


def _matched_decisions(
    path: str | Path, options: Mapping[str, Any], args: argparse.Namespace, complete: bool
) -> MatchedEntities:
    from calibrant.reviewing import Decisions
    from calibrant.reviewing.labels import check_complete, matched_decisions

    if args.spans is not None:
        raise InputError(f"--spans is about the files of spaCy, got {path}.")
    decisions = Decisions(path)
    if complete:
        check_complete(decisions)
    found = matched_decisions(decisions, **options)
    note_part(decisions)
    return found


def note_part(decisions: Decisions) -> None:
    """Print a note if documents are open: they are not like those that were reviewed first."""
    from calibrant.reviewing.labels import reviewed_part

    if (part := reviewed_part(decisions)) is not None:
        print(f"{part} What follows is about these, not about the others.", file=sys.stderr)


def reviewed_run(args: argparse.Namespace) -> Mapping[str, str | None] | None:
    """Return the fingerprints of the run whose predictions were reviewed, None of other files."""
    from calibrant.reviewing import Decisions

    return Decisions(args.files[0]).run if args.entities == REVIEWED else None


def _has_spans(path: Path, spans: str | None) -> bool:
    """Return whether GOLD has the group of spans too; people's markings mostly have not."""
    from calibrant.entities import read_entities

    if spans is None:
        return False
    try:
        read_entities(path)
    except InputError:
        return True
    return False


def renamed_types(given: Sequence[str]) -> dict[str, str | None]:
    """Return the new name of each type; None leaves it out.

    >>> renamed_types(["PERSON=PER", "MISC="])
    {'PERSON': 'PER', 'MISC': None}
    """
    found: dict[str, str | None] = {}
    for each in given:
        name, equals, new = each.partition("=")
        if not equals or not name:
            raise InputError(f"--type takes NAME=GOLD, got '{shortened(each)}'.")
        if name in found:
            raise InputError(f"--type names '{shortened(name)}' twice.")
        found[name] = new or None
    return found
