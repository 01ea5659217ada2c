"""Options of several commands."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InputError, printable
from calibrant.files import Columns, Paths, expand, notes, read_label_names, suffixes
from calibrant.files.format import joined
from calibrant.files.standard_input import STANDARD
from calibrant.inputs import parse_json, read_json

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator

__all__ = [
    "add_address",
    "add_cluster",
    "add_data_dir",
    "add_device",
    "add_engine",
    "add_file_options",
    "add_intervals",
    "add_json",
    "add_keep_together",
    "add_labels",
    "add_output",
    "add_report",
    "add_run",
    "add_run_options",
    "add_set",
    "add_trust",
    "check_cluster",
    "columns_from",
    "files_again",
    "files_read",
    "parse_settings",
    "print_notes",
    "read_label_pairs",
    "refuse_run_options",
    "uncut",
]

_COLUMN_OPTIONS = (
    *("kind", "logits_column", "probabilities_column", "label_column", "predicted_column"),
    *("confidence_column", "correct_column", "positive", "weights_column", "group_columns"),
    *("signal_columns", "labels"),
)


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add where a service listens, and its token."""
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (8000)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on, such as 0.0.0.0 for all; addresses other than this "
        "machine's need a token (127.0.0.1)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that requests need (default: the variable CALIBRANT_TOKEN)",
    )


def add_file_options(
    parser: argparse.ArgumentParser, files: str | None = "FILE", *, least: str = "+"
) -> None:
    """Add ``files`` (shown under that name; None: the command has its own) and column options."""
    if files is not None:
        parser.add_argument(
            "files",
            nargs=least,
            metavar=files,
            help=f"a file ({', '.join(suffixes())}, .npy), a folder of shards, a glob, or '-' for "
            "standard input; several are read as one",
        )
    _add_columns(parser.add_argument_group("columns"))


def _add_columns(group: Any) -> None:
    group.add_argument(
        "--kind",
        choices=("logits", "probabilities", "top-label", "multi-label"),
        help="what the scores are, if the column names do not show it (never guessed from the "
        "values)",
    )
    for kind in ("logits", "probabilities"):
        group.add_argument(
            f"--{kind}-column",
            metavar="NAME",
            help=f"where the {kind} are: a list column, one column per class separated by commas, "
            f"or a prefix such as 'p_*' (default: {kind}, {kind}:NAME or {kind}_0, …)",
        )
    group.add_argument(
        "--label-column",
        metavar="NAME",
        help="where the labels are (default: label, labels, y_true, target, …)",
    )
    for name, words in (
        ("predicted", "predicted labels are, if the scores of all classes are not known"),
        ("confidence", "confidences of the predicted labels are"),
        ("correct", "file says which predictions are right"),
    ):
        group.add_argument(f"--{name}-column", metavar="NAME", help=f"where the {words}")
    group.add_argument(
        "--positive",
        metavar="LABEL",
        help="the label of the positive class, for one score per example and labels that are text",
    )
    group.add_argument(
        "--weights-column",
        metavar="NAME",
        help="where the sample weights are; '' reads none (default: weight or sample_weight)",
    )
    group.add_argument(
        "--group-columns",
        metavar="NAME[,NAME…]",
        help="further columns to keep, such as sentence; '' keeps none (default: all others)",
    )
    group.add_argument(
        "--signal-columns",
        metavar="NAME[,NAME…]",
        help="columns of numbers for calibrators of shifted data (default: every signal.NAME)",
    )
    group.add_argument(
        "--labels",
        metavar="FILE",
        help="file of label names: one per line, a JSON list, or a model's config.json",
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that reads parquet on a cluster."""
    group = parser.add_argument_group("cluster", "Files are parquet, also at s3://… or gs://….")
    add_engine(group, "ray", "spark")
    group.add_argument(
        "--skip-corrupt",
        action="store_true",
        help="with --engine: leave out row groups that cannot be read, and count them",
    )


def check_cluster(args: argparse.Namespace) -> None:
    """Refuse what does not go with an engine, or without one."""
    if args.skip_corrupt and args.engine is None:
        raise InputError("--skip-corrupt needs --engine.")
    if args.engine is not None and (given := getattr(args, "entities", None)):
        raise InputError(f"{given} is not for --engine, which reads parquet: leave --engine out.")


def add_output(parser: Any, words: str, *, metavar: str = "FILE", old: str = "file") -> None:
    """Add the options of a command that must write: where to, and whether over something."""
    parser.add_argument("-o", "--output", metavar=metavar, type=Path, required=True, help=words)
    parser.add_argument("--overwrite", action="store_true", help=f"replace an existing {old}")


def add_json(parser: Any) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_report(parser: Any) -> None:
    """Add what a command that prints or writes a page takes."""
    parser.add_argument(
        "--report", metavar="HTML", type=Path, help="write an HTML report to this file"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing report")
    add_json(parser)


def add_keep_together(parser: Any, found: str = "sentence or image") -> None:
    """Add ``--keep-together``, None for "none"; ``found`` says which columns "auto" takes."""
    parser.add_argument(
        "--keep-together",
        type=lambda name: None if name == "none" else name,
        default="auto",
        metavar="COLUMN",
        help="column that groups rows which depend on each other and stay together; 'none': all "
        f"rows are independent ({found}, if the file has such a column)",
    )


def add_intervals(
    parser: Any,
    replicates: int | None = None,
    *,
    optional: bool = False,
    seed: str = "seed of the bootstrap",
) -> None:
    """Add level and seed of intervals; of a bootstrap its ``replicates``, 0 if it is optional."""
    none = "; 0: no intervals" if optional else ""
    if replicates is not None:
        parser.add_argument(
            "--bootstrap",
            type=int,
            default=replicates,
            help=f"bootstrap replicates for intervals{none} ({replicates})",
        )
    parser.add_argument("--level", type=float, default=0.95, help="coverage of intervals (0.95)")
    parser.add_argument("--seed", type=int, default=0, help=f"{seed} (0)")


def add_run(parser: Any, more: str = "") -> None:
    """Add the folder of a run, ``args.model``."""
    parser.add_argument(
        "model", metavar="RUN", type=Path, help=f"folder of a finished 'calibrant train'{more}"
    )


def add_data_dir(parser: Any, more: str = "") -> None:
    """Add where corpora are."""
    parser.add_argument(
        "--data-dir", metavar="FOLDER", help=f"folder of the corpora (CALIBRANT_DATA){more}"
    )


def add_device(parser: Any) -> None:
    """Add where a model runs."""
    parser.add_argument("--device", help="cpu, cuda or cuda:1 (cuda if there is one)")


def add_engine(parser: Any, *engines: str) -> None:
    """Add ``--engine``; ``args.engine`` has the name of the engine and its address, or is None."""
    from calibrant.distributed.engine_names import ADDRESS, EngineName, parse_engine

    def parse(given: str) -> EngineName:
        try:
            return parse_engine(given, engines)
        except InputError as error:  # argparse hides the words of other errors.
            raise argparse.ArgumentTypeError(str(error)) from None

    parser.add_argument(
        "--engine",
        metavar="|".join(f"{name}[:{ADDRESS[name]}]" for name in engines),
        type=parse,
        help="run on a cluster: ray starts one on this machine (ray:auto is the one that this "
        "machine belongs to, ray:HOST:PORT another)"
        + ("; spark:MASTER, such as spark:local[4]" if "spark" in engines else ""),
    )


def add_run_options(parser: Any) -> Any:
    """Add what a run needs to predict new texts or images; return the group."""
    group = parser.add_argument_group("runs")
    group.add_argument(
        "--tokens", action="store_true", help="texts of entities are already split into words"
    )
    add_device(group)
    add_trust(group)
    return group


def refuse_run_options(args: argparse.Namespace, run: str) -> None:
    """Refuse options that mean something for a run alone; ``run`` says how one is named."""
    for name in ("tokens", "device", "trust_remote_code", "corrupt", "data_dir"):
        if getattr(args, name, None):
            raise InputError(f"--{name.replace('_', '-')} is for a run, {run}: leave it out.")


def add_trust(parser: Any) -> None:
    """Add the permission that every command that loads a model needs."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run Python code that comes with a model; without this option such a model is refused",
    )


def add_set(parser: Any, words: str) -> None:
    """Add ``--set KEY=VALUE``; :func:`parse_settings` reads ``args.settings``."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=f"{words}, as JSON; may be repeated",
    )


def add_labels(parser: Any) -> None:
    """Add the names that the classes of a fine-tuned model have in the corpus."""
    parser.add_argument(
        "--labels",
        metavar="MODEL=CORPUS[,…]|FILE",
        help="wrapped: the names in the corpus for classes of the model (or types of entities), "
        "such as PERSON=PER,GPE=LOC,DATE=O, or a JSON file of such pairs",
    )


def read_label_pairs(given: str) -> dict[str, str]:
    """Read pairs of names, or a JSON file of them.

    >>> read_label_pairs("LABEL_0=neg,LABEL_1=pos")
    {'LABEL_0': 'neg', 'LABEL_1': 'pos'}
    """
    from calibrant.tasks.label_matching import parse_labels

    if not given.endswith(".json"):
        return parse_labels(given)
    content = read_json(Path(given), "not a JSON file of label names")
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise InputError(f'{given}: expected {{"MODEL": "CORPUS", …}}.')
    return content


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Read values as JSON has them: numbers, true, false, null, lists, objects; else as text.

    >>> parse_settings(["gamma=3", "noise={\\"name\\": \\"shell\\"}", "reduction=sum"])
    {'gamma': 3, 'noise': {'name': 'shell'}, 'reduction': 'sum'}
    """
    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes KEY=VALUE, got '{setting}'.")
        try:
            values[name] = parse_json(text)
        except ValueError:
            values[name] = text
    return values


def columns_from(args: argparse.Namespace) -> Columns:
    """Return the options as the library takes them.

    >>> parser = argparse.ArgumentParser()
    >>> add_file_options(parser)
    >>> columns_from(parser.parse_args(["a.csv", "--logits-column", "x,y"])).logits
    ('x', 'y')
    """
    return Columns(
        logits=_names(args.logits_column),
        probabilities=_names(args.probabilities_column),
        label=args.label_column,
        groups=_listed(args.group_columns),
        label_names=None if args.labels is None else read_label_names(args.labels),
        predicted=args.predicted_column,
        confidence=args.confidence_column,
        correct=args.correct_column,
        positive=args.positive,
        signals=_listed(args.signal_columns),
        weights=args.weights_column,
    )


def files_again(args: argparse.Namespace) -> str:
    """Return the files and the options about their columns, as the next command needs them.

    >>> parser = argparse.ArgumentParser()
    >>> add_file_options(parser)
    >>> files_again(parser.parse_args(["my file.csv", "--label-column", "gold"]))
    "'my file.csv' --label-column gold"
    """
    first, *more = map(str, args.files)
    words = ["FILE…" if more else "FILE" if first == STANDARD else shlex.quote(first)]
    given = {name: getattr(args, name) for name in _COLUMN_OPTIONS}
    for name, value in given.items():
        if value is not None:
            words.append(f"--{name.replace('_', '-')} {shlex.quote(str(value))}")
    return " ".join(words)


def print_notes(files: Paths) -> None:
    """Say on standard error what the scores of a language model are."""
    for note in notes(files):
        print(printable(note), file=sys.stderr)


def files_read(args: argparse.Namespace) -> list[Path]:
    """Return all files that the command reads: it never overwrites them."""
    calibrator = getattr(args, "calibrator", None)
    others = [args.labels, calibrator if isinstance(calibrator, Path) else None]
    return [*expand(args.files), *(Path(name) for name in others if name is not None)]


def uncut(
    read: Callable[[Sequence[Path | str]], Iterator[Any]],
    files: Sequence[Path | str],
    calibrator: Calibrator | None,
) -> Iterator[Any]:
    """Yield the chunks of files; each file as one where the calibrator reads means over groups.

    A sentence that two chunks share would have other means, as in a file that is cut there.
    """
    if calibrator is None or not calibrator.signals_:
        yield from read(files)
        return
    for file in expand(files):
        if parts := list(read([file])):
            yield joined(parts)


def _listed(value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(name for name in value.split(",") if name)


def _names(value: str | None) -> str | tuple[str, ...] | None:
    return tuple(value.split(",")) if value and "," in value else value
