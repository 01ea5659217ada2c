"""``calibrant report``: compare the records of many runs."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.old_options import calibrator_name, method_name, metric_name
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.study import Extra, StudyInputs

__all__ = ["add_options", "add_parser", "run"]

_LEADING_NAME = re.compile(r"^[\w-]+")  # A baseline may have options after the name of its method.


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "report",
        help="make tables, tests and figures from the records of many runs",
        description="Make tables (mean ± interval over seeds, best in bold), paired tests against "
        "a baseline, ranks over corpora and figures from records, which 'calibrant bench' and "
        "'calibrant train' write. Without -o, print the tables as Markdown.",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every report of records takes."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUNS", type=Path, help="folders of records, or .jsonl files"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        help="write index.html, report.md, tables as .tex and .csv, figures as .svg and .png",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing report")
    parser.add_argument(
        "--by",
        metavar="KEY[,KEY…]",
        help="show these recipe keys (learning_rate, batch) or method options (weight) in columns",
    )
    parser.add_argument(
        "--baseline",
        metavar="METHOD",
        help="test all other methods against this one (cross-entropy)",
    )
    parser.add_argument(
        "--metrics", metavar="NAME[,NAME…]", help="columns of the tables (entity_f1, ece, apcr)"
    )
    parser.add_argument(
        "--calibrators",
        metavar="NAME[,NAME…]",
        help="calibrators that most tables show, or all (identity,temperature)",
    )
    parser.add_argument("--json", action="store_true", help="print the tables as one JSON document")


def run(
    args: argparse.Namespace, extra_tables: Callable[[StudyInputs], Extra] | None = None
) -> int:
    """Read the records, build the study, write or print it."""
    from calibrant.study import build_study, read_all, read_titles, write_study
    from calibrant.study.markdown import markdown_report

    study = build_study(
        read_all(args.runs),
        title=read_titles(args.runs),
        by=_names("by", args.by) or (),
        baseline=args.baseline and _LEADING_NAME.sub(_method, args.baseline, 1),
        metrics=_metrics(args.metrics),
        calibrators=_calibrators(args.calibrators),
        extra_tables=extra_tables,
    )
    remarks = []
    if args.output is not None:
        remarks = write_study(args.output, study, overwrite=args.overwrite, inputs=args.runs)
    if args.json:
        print(document("report", study.to_dict()))
    elif args.output is None:
        print(markdown_report(study), end="")
    else:
        for sentence in study.summary:
            print(printable(sentence))
        for sentence in study.missing:
            print(f"- {printable(sentence)}")
        print(printable(f"Report: {args.output / 'index.html'}"))
    for remark in remarks:
        print(printable(remark), file=sys.stderr)
    return 0


def _method(found: re.Match[str]) -> str:
    return method_name(found[0])


def _metrics(text: str | None) -> list[str] | None:
    names = _names("metrics", text)
    return None if names is None else [metric_name(name) for name in names]


def _calibrators(text: str | None) -> list[str] | None:
    names = _names("calibrators", text)
    return None if names is None else [calibrator_name(name) for name in names]


def _names(option: str, text: str | None) -> list[str] | None:
    """Return the names of a list; None without one."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"--{option} takes names with commas between them, got '{text}'.")
    return names
