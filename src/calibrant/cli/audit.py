"""``calibrant audit``: how far can these confidences be trusted?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.options import add_file_options, columns_from, files_read
from calibrant.errors import printable

if TYPE_CHECKING:
    from calibrant.auditing import Audit
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions

__all__ = ["add_parser", "print_audits", "run"]

_AFTER = "after "


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "audit",
        help="how far can the confidences in a file be trusted?",
        description="Print how far the confidences in a file of predictions can be trusted, with "
        "intervals and plain words, and write a report with pictures.",
    )
    add_file_options(parser)
    parser.add_argument("--report", metavar="HTML", type=Path, help="write a report to this file")
    parser.add_argument("--overwrite", action="store_true", help="replace a report that exists")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    parser.add_argument(
        "--with", dest="map", metavar="MAP", type=Path, help="a fitted map: show before and after"
    )
    parser.add_argument("--bins", type=int, default=15, help="number of bins (15)")
    parser.add_argument(
        "--closed",
        choices=("right", "left"),
        default="right",
        help="the closed end of bins (right)",
    )
    parser.add_argument(
        "--bootstrap", type=int, default=1000, help="replicates for intervals (1000; 0: none)"
    )
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument(
        "--by",
        default="auto",
        metavar="GROUP",
        help="column whose examples are not independent and stay together in the bootstrap "
        "(sentence or image where there is one; 'none': every example for itself)",
    )
    parser.add_argument(
        "--reduction",
        choices=("product", "min", "mean"),
        default="product",
        help="confidence of an entity from that of its words (product)",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=10_000_000,
        metavar="EXAMPLES",
        help="of more than so many, metrics that sort look at a sample, and say so (10 million)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of bootstrap and sample (0)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit the files, print, and write the report."""
    from calibrant.outputs import check_writable
    from calibrant.report import write_report

    if args.report is not None:  # Before the work, not after it.
        check_writable(args.report, overwrite=args.overwrite, inputs=files_read(args))
    audits = _audits(args)
    if args.report is not None:  # Before anything is printed: the reader may leave early.
        write_report(args.report, audits, overwrite=args.overwrite)
    if args.json:
        print(document("audit", _content(audits)))
        return 0
    print_audits(audits)
    if args.report is not None:
        print(f"\nReport: {printable(str(args.report))}")
    return 0


def _content(audits: dict[str, Audit]) -> dict[str, Any]:
    """The document's keys, the same whether there is a map or not, and whatever its name."""
    first, *more = audits.items()
    name, after = more[0] if more else (None, None)
    return {
        "audit": first[1].to_dict(),
        "map": None if name is None else name.removeprefix(_AFTER),
        "after": None if after is None else after.to_dict(),
    }


def _audits(args: argparse.Namespace) -> dict[str, Audit]:
    from calibrant.auditing import audit
    from calibrant.files import fingerprints

    options = {
        "bins": args.bins,
        "closed": args.closed,
        "bootstrap": args.bootstrap,
        "level": args.level,
        "by": None if args.by == "none" else args.by,
        "reduction": args.reduction,
        "seed": args.seed,
        "sample": args.sample,
        "provenance": {"files": [vars(f) for f in fingerprints(args.files)]},
    }
    if args.map is None:
        return {"audit": audit(_stream(args), **options)}
    from calibrant.calibrators import load_calibrator

    calibrator = load_calibrator(args.map)
    calibrator.transform(next(_stream(args)))  # A map of other classes is refused before the work.
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
    with Progress(count_rows(args.files, columns, args.kind), "rows") as progress:
        for chunk in stream(args.files, columns, args.kind):
            yield chunk if calibrator is None else calibrator.transform(chunk)
            progress.advance(len(chunk) + chunk.ignored)


def print_audits(audits: dict[str, Audit]) -> None:
    """The verdict and a table of measures, one column of values per audit."""
    from calibrant.cli.table import render_table

    first = next(iter(audits.values()))
    n, ignored = first.provenance["n"], first.provenance["ignored"]
    examples = "1 example" if n == 1 else f"{n:,} examples"
    print(f"{examples}, {len(first.label_names)} classes, {ignored:,} ignored\n")
    for name, audit in audits.items():
        if len(audits) > 1:
            print(printable(f"{name[0].upper()}{name[1:]}:"))
        warned = [f"Warning: {warning}" for warning in audit.warnings]
        print(*map(printable, [*audit.verdict, *warned]), sep="\n", end="\n\n")
    if len(audits) == 1:
        headers, right = ["metric", "value", "interval", "what it means"], [1, 2]
        rows = [[m.title, _number(m.value), _interval(m), m.meaning] for m in _measures(first)]
    else:
        headers = ["metric", *(f"{name} (interval)" for name in audits)]
        right = list(range(1, len(headers)))
        columns = [_measures(audit) for audit in audits.values()]
        rows = [
            [each[0].title, *(f"{_number(m.value)} {_interval(m)}".strip() for m in each)]
            for each in zip(*columns, strict=True)
        ]
    print(render_table(headers, rows, right=right))


def _measures(audit: Audit) -> list[Any]:
    views = (audit.entities, audit.pixels)
    return [*(m for view in views if view for m in view.measures), *audit.measures]


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def _interval(measure: Any) -> str:
    if measure.low is None:
        return ""
    return f"[{_number(measure.low)}, {_number(measure.high)}]"
