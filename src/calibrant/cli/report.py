"""``calibrant report``: compare the records of many runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.study import Extra, StudyInputs

__all__ = ["add_options", "add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "report",
        help="tables, tests and figures from the records of runs",
        description="Tables (mean ± interval over seeds, best in bold), paired tests against a "
        "baseline, ranks over corpora and figures from records that 'calibrant bench' wrote. "
        "Without -o the tables are printed as Markdown.",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every report of records takes."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUNS", type=Path, help="folders of records, .jsonl files"
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
        help="recipe keys (learning_rate, batch) or options of methods (weight) to show in columns",
    )
    parser.add_argument(
        "--baseline",
        metavar="METHOD",
        help="the method that the others are tested against (cross_entropy)",
    )
    parser.add_argument(
        "--metrics", metavar="NAME[,NAME…]", help="columns of the tables (entity_f1, ece, apcr)"
    )
    parser.add_argument(
        "--maps",
        metavar="NAME[,NAME…]",
        help="post-hoc maps of most tables, or all (identity,temperature)",
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
        by=_names(args.by) or (),
        baseline=args.baseline,
        metrics=_names(args.metrics),
        maps=_names(args.maps),
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
            print(f"Missing: {printable(sentence)}")
        print(printable(f"Report: {args.output / 'index.html'}"))
    for remark in remarks:
        print(printable(remark), file=sys.stderr)
    return 0


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
