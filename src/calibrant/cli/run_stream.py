"""New data for a run: predictions in files, or texts and images that its model predicts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import columns_from
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.predictions import Predictions

__all__ = ["run_predictions"]


def run_predictions(
    folder: Path, files: Sequence[str | Path], args: argparse.Namespace
) -> tuple[Iterator[Predictions], bool]:
    """Return predictions before the calibrator, and whether words were cut from raw text."""
    from calibrant.files import stream_unlabelled

    if getattr(args, "reviewed", None) is not None:
        return _reviewed(folder, files, args), True
    try:
        found = stream_unlabelled(list(files), columns_from(args), args.kind)
    except InputError:
        if not _may_be_inputs(files):
            raise
        return _predicted(folder, files, args), not args.tokens
    return _some(found, files), False


def _reviewed(
    folder: Path, files: Sequence[str | Path], args: argparse.Namespace
) -> Iterator[Predictions]:
    """Predict the words of texts; those of reviewed texts have the labels of their reviewers."""
    from calibrant.cli.entity_options import note_part
    from calibrant.cli.review import named_texts
    from calibrant.loading import load_run
    from calibrant.reviewing import Decisions
    from calibrant.reviewing.labels import label_words, word_tags

    if len(files) != 1 or args.tokens:
        raise InputError("--reviewed takes one file of texts, which are not split into words.")
    decisions = Decisions(args.reviewed)
    predictor: Any = load_run(folder, args.device, trust_remote_code=args.trust_remote_code)
    if not predictor.finds_entities:
        raise InputError(f"{folder} finds no entities: a review is about runs of '--task ner'.")
    texts = named_texts(files[0])
    tags, decided = word_tags(texts.items(), decisions.latest, predictor.cutting, predictor.labels)
    if not decided:
        raise InputError(f"{args.reviewed} has no decision about the texts of {files[0]}.")
    note_part(decisions)
    if lacking := sum(tag not in predictor.labels for row in tags if row for tag in row):
        print(
            f"Words of types that the model lacks: {lacking:,}. They count as unlabelled, although "
            "the model is wrong about them.",
            file=sys.stderr,
        )
    return _some(label_words(predictor.raw_predictions(texts.values()), tags), files)


def _may_be_inputs(files: Sequence[str | Path]) -> bool:
    """Whether files exist that are not predictions: they may be texts or images."""
    return all(Path(name).exists() for name in files)


def _some(found: Iterator[Predictions], files: Sequence[str | Path]) -> Iterator[Predictions]:
    first = next(found, None)
    if first is None:
        raise InputError(f"{files[0]}: no rows.")
    return chain([first], found)


def _predicted(
    folder: Path, files: Sequence[str | Path], args: argparse.Namespace
) -> Iterator[Predictions]:
    from calibrant.cli.predict_input import IMAGE, read_images, read_rows, words_of
    from calibrant.loading import load_run
    from calibrant.progress import Progress

    predictor = load_run(folder, args.device, trust_remote_code=args.trust_remote_code)
    images = predictor.unit == "images"
    given = [
        read_images(str(name)) if images else read_rows(str(name), args.tokens, ())
        for name in files
    ]
    rows = chain.from_iterable(each.rows for each in given)
    if images:
        inputs = (row[IMAGE] if IMAGE in row else row["file"] for row in rows)
    else:
        inputs = (words_of(row) if args.tokens else row["text"] for row in rows)

    def parts() -> Iterator[Predictions]:
        with Progress(None, predictor.unit) as progress:
            for part in predictor.raw_predictions(inputs, tokens=args.tokens):
                yield part
                progress.advance(len(part))

    return _some(parts(), files)
