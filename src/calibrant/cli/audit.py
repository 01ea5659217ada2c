"""``calibrant audit``: how far can these confidences be trusted?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.apply import apply_command
from calibrant.cli.document import document
from calibrant.cli.entities import audit_entity_files
from calibrant.cli.entity_options import add_entity_options, without_entities
from calibrant.cli.options import (
    add_cluster,
    add_file_options,
    add_intervals,
    add_keep_together,
    add_report,
    check_cluster,
    columns_from,
    files_again,
    files_read,
    print_notes,
    uncut,
)
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.auditing import Audit, GroupTable
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions

__all__ = ["add_parser", "print_audits", "print_left_out", "print_measures", "run"]

_AFTER = "after "
_SAMPLE = 10_000_000


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "audit",
        help="check how far the confidences in a file can be trusted",
        description="Check how far the confidences in a file of predictions can be trusted. Print "
        "each metric with its interval and what it means. With --report, write an HTML report too.",
    )
    add_file_options(parser)
    add_entity_options(parser)
    add_report(parser)
    parser.add_argument(
        "--calibrator",
        metavar="FILE",
        type=Path,
        help="show numbers before and after this calibrator, a file that 'calibrant fit' saved",
    )
    parser.add_argument("--bins", type=int, default=15, help="number of bins (15)")
    parser.add_argument(
        "--closed",
        choices=("right", "left"),
        default="right",
        help="which end of a bin belongs to it (right)",
    )
    add_intervals(parser, 1000, optional=True, seed="seed of bootstrap and sample")
    add_keep_together(parser)
    parser.add_argument(
        "--per",
        metavar="COLUMN",
        action="append",
        default=[],
        help="show each subgroup of this column (site, language, month) with intervals, and which "
        "differ from the others beyond chance; may be repeated",
    )
    parser.add_argument(
        "--reduction",
        choices=("product", "min", "mean"),
        default="product",
        help="how to combine the confidences of words into that of an entity (product)",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=_SAMPLE,
        metavar="EXAMPLES",
        help="above this many examples, at most a million, rank metrics use a random sample "
        "(without: a sketch of all examples above a million)",
    )
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit the files, print, and write the report."""
    check_cluster(args)
    if args.engine is not None and args.sample != _SAMPLE:
        raise InputError("--sample is not for --engine, which counts all rows: leave it out.")
    if args.entities:
        return audit_entity_files(args)
    without_entities(args)
    from calibrant.outputs import check_writable
    from calibrant.report import write_report

    again = files_again(args)
    if args.engine is None:
        from calibrant.files import expand

        args.files = expand(args.files)  # Once: the same files are listed, counted and read.
        print_notes(args.files)
    if args.report is not None:  # Before the work, not after it.
        inputs = files_read(args) if args.engine is None else []
        check_writable(args.report, overwrite=args.overwrite, inputs=inputs)
    audits = _audits(args) if args.engine is None else _audits_on_cluster(args)
    if args.report is not None:  # Before anything is printed: the reader may leave early.
        write_report(audits, args.report, overwrite=args.overwrite)
    if args.json:
        print(document("audit", _content(audits)))
        return 0
    print_audits(audits)
    if args.report is not None:
        print(f"\nReport: {printable(str(args.report))}")
    print(f"\nNext: {printable(_next_command(args, again))}")
    return 0


def _next_command(args: argparse.Namespace, again: str) -> str:
    """Suggest what to do with the result, as one line; ``again`` has the files and columns."""
    if args.calibrator is not None:
        return apply_command(args.calibrator, again)
    return (
        f"calibrant compare VALID {again}    # which calibrator, fitted on other labelled "
        "predictions of the model, makes these more honest?"
    )


def _content(audits: dict[str, Audit]) -> dict[str, Any]:
    """Return the document's keys, which do not depend on the calibrator or its name."""
    first, *more = audits.items()
    name, after = more[0] if more else (None, None)
    calibrator = None if name is None else name.removeprefix(_AFTER)
    return {
        "audit": first[1].to_dict(),
        "calibrator": calibrator,
        "map": calibrator,  # Its old key, until the format changes.
        "after": None if after is None else after.to_dict(),
    }


def _audits_on_cluster(args: argparse.Namespace) -> dict[str, Audit]:
    from calibrant.distributed import audit
    from calibrant.distributed.engines import using_engine

    columns = columns_from(args)
    options = {"columns": columns, "kind": args.kind, "skip_damaged": args.skip_corrupt}
    options |= {**_settings(args), "provenance": {"files": args.files, "engine": args.engine.name}}
    with using_engine(args.engine) as engine:
        audits = {"audit": audit(args.files, engine=engine, **options)}
        if args.calibrator is not None:
            from calibrant.calibrators import load_calibrator

            calibrator = load_calibrator(args.calibrator)
            after = audit(args.files, engine=engine, calibrator=calibrator, **options)
            audits = {"before": audits["audit"], f"{_AFTER}{calibrator.name}": after}
    print_left_out(next(iter(audits.values())).provenance)
    return audits


def print_left_out(provenance: Mapping[str, Any]) -> None:
    """Say on standard error what an engine could not read."""
    from calibrant.distributed.left_out import in_words

    for line in in_words(provenance):
        print(f"Warning: {printable(line)}", file=sys.stderr)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that an audit here and one on a cluster share."""
    names = ("bins", "closed", "bootstrap", "level", "keep_together", "per", "reduction", "seed")
    return {name: getattr(args, name) for name in names}


def _audits(args: argparse.Namespace) -> dict[str, Audit]:
    from calibrant.auditing import audit
    from calibrant.files import fingerprints

    options = {
        **_settings(args),
        "sample": args.sample,
        "provenance": {"files": [vars(f) for f in fingerprints(args.files)]},
    }
    if args.calibrator is None:
        return {"audit": audit(_stream(args), **options)}
    from calibrant.calibrators import load_calibrator

    calibrator = load_calibrator(args.calibrator)
    calibrator.transform(next(_stream(args)))  # Refuses other classes before the work.
    return {
        "before": audit(_stream(args), **options),
        f"{_AFTER}{calibrator.name}": audit(_stream(args, calibrator), **options),
    }


def _stream(
    args: argparse.Namespace, calibrator: Calibrator | None = None
) -> Iterator[Predictions]:
    from calibrant.files import count_rows, stream
    from calibrant.progress import Progress

    columns = columns_from(args)

    def chunks(paths: Sequence[Path | str]) -> Iterator[Any]:
        return stream(paths, columns, args.kind)

    with Progress(count_rows(args.files, columns, args.kind), "rows") as progress:
        for chunk in uncut(chunks, args.files, calibrator):
            yield chunk if calibrator is None else calibrator.transform(chunk)
            progress.advance(len(chunk) + chunk.ignored)


def print_audits(audits: dict[str, Audit]) -> None:
    """Print the verdict and a table of measures, one column of values per audit."""
    from calibrant.charts.numbers import counted

    first = next(iter(audits.values()))
    n, ignored = first.provenance["n"], first.provenance["ignored"]
    examples = "1 example" if n == 1 else f"{n:,} examples"
    missing = first.provenance["unlabelled"]
    dropped = f"{ignored:,} ignored" + (f" ({missing:,} without a label)" if missing else "")
    if first.top is not None:
        examples = f"{counted(n, 'label')} of {counted(round(float(first.top.state.n)), 'example')}"
    classes = f"{counted(len(first.label_names), 'class')}, " if first.label_names else ""
    print(f"{examples}, {classes}{dropped}\n")
    print_measures(audits)


def print_measures(audits: dict[str, Audit]) -> None:
    """Print the same without the number of examples."""
    from calibrant.cli.table import render_table

    first = next(iter(audits.values()))
    for name, audit in audits.items():
        if len(audits) > 1:
            print(printable(f"{name[0].upper()}{name[1:]}:"))
        warned = [f"Warning: {warning}" for warning in audit.warnings]
        print(*map(printable, [*audit.verdict, *warned]), sep="\n", end="\n\n")
    if len(audits) == 1:
        headers, right = ["metric", "value", "interval", "what it means"], [1, 2]
        rows = [[m.title, m.value_text, m.interval_text, m.meaning] for m in first.all_measures]
    else:
        columns = [audit.all_measures for audit in audits.values()]
        unit = " (interval)" if any(m.low is not None for m in columns[0]) else ""
        headers = ["metric", *(f"{name}{unit}" for name in audits)]
        right = list(range(1, len(headers)))
        rows = [
            [each[0].title, *(f"{m.value_text} {m.interval_text}".strip() for m in each)]
            for each in zip(*columns, strict=True)
        ]
    print(render_table(headers, rows, right=right))
    _print_at_risk(audits)
    for name, audit in audits.items():
        if audit.positive is not None:
            print(f"\n{printable(audit.positive.explanation)}")
        for table in audit.per:
            print_groups(table, name if len(audits) > 1 else "")


def _print_at_risk(audits: dict[str, Audit]) -> None:
    """Print what can be kept at which risk, of entities where there are any."""
    from calibrant.charts.numbers import percent
    from calibrant.cli.table import render_table

    views = {name: audit.entities or audit for name, audit in audits.items()}
    found = {name: view.at_risk for name, view in views.items() if view.at_risk}
    if not found:
        return
    headers = ["at most wrong"]
    for name in found:
        headers += ["kept", "from confidence"] if len(found) == 1 else [f"kept {name}", "from"]
    rows = []
    for points in zip(*found.values(), strict=True):
        cells = [f"{100 * points[0].risk:g} %"]
        for point in points:
            cells += [percent(point.coverage), point.threshold_text]
        rows.append(cells)
    print(f"\n{render_table(headers, rows, right=range(len(headers)))}")


def print_groups(table: GroupTable, which: str) -> None:
    """Print one row per subgroup."""
    from calibrant.cli.table import render_table

    def cell(row: Any, key: str) -> str:
        low, high = getattr(row, f"{key}_low"), getattr(row, f"{key}_high")
        spread = "" if low is None else f" [{low:.4f}, {high:.4f}]"
        return f"{getattr(row, key):.4f}{spread}"

    names = ("accuracy", "confidence")
    if table.of == "positive class":
        names = ("share of positives", "mean score")
    heads = [table.column, "n", *names, "gap", "ECE", "differs"]
    rows = []
    for r in table.rows:
        numbers = [cell(r, key) for key in ("accuracy", "confidence", "gap", "ece")]
        differs = f"yes (p = {r.p_value:.2g})" if r.differs else "no"
        rows.append([r.name, f"{r.n:,}", *numbers, differs])
    print(f"\nBy {printable(table.column)}, {table.of}{f', {which}' if which else ''}:")
    print(render_table(heads, rows, right=[1, 2, 3, 4, 5]))
    print(
        f"Gap: {names[1]} − {names[0]}. Differs: the gap is not that of all other examples, at "
        "5 % for all rows together."
    )
