"""``calibrant list``: show names, each with one line and its paper."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from calibrant.cli.document import document
from calibrant.cli.options import add_json
from calibrant.cli.table import render_table
from calibrant.errors import unknown_name

__all__ = ["add_parser", "run"]

Row = dict[str, str]


def _methods() -> list[Row]:
    from calibrant.methods import METHODS

    return [
        {"name": k.replace("_", "-"), "about": e.summary, "paper": e.paper}
        for k, e in METHODS.items()
    ]


def _noises() -> list[Row]:
    from calibrant.methods import NOISES

    return [{"name": k, "about": e.summary, "paper": e.paper} for k, e in NOISES.items()]


def _calibrators() -> list[Row]:
    from calibrant.calibrators import CALIBRATORS

    return [{"name": k, "about": e.about, "paper": e.reference} for k, e in CALIBRATORS.items()]


def _metrics() -> list[Row]:
    from calibrant.metrics import METRICS

    better = {1: "more is better", -1: "less is better", 0: "neither more nor less is better"}
    return [
        {"name": k, "about": f"{m.title}; of {m.kind}; {better[m.better]}", "paper": m.paper}
        for k, m in METRICS.items()
    ]


def _corruptions() -> list[Row]:
    from calibrant.corruptions import IMAGE, TEXT

    rows = [
        {
            "name": name,
            "about": f"text: {kind.about}; {_levels(kind.rates)} of the {kind.unit}s",
            "paper": kind.paper,
        }
        for name, kind in TEXT.items()
    ]
    return rows + [
        {"name": k, "about": f"image: {e.about} {_levels(e.levels)}", "paper": e.paper}
        for k, e in IMAGE.items()
    ]


def _levels(levels: tuple[float, ...]) -> str:
    return ", ".join(f"{level:g}" for level in levels)


def _tasks() -> list[Row]:
    from calibrant.tasks import all_tasks

    return [{"name": k, "about": e.summary, "paper": "–"} for k, e in all_tasks().items()]


KINDS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "tasks": ("what calibrant can train", _tasks),
    "methods": ("what changes the training", _methods),
    "noises": ("what the method head-noise feeds to the head", _noises),
    "calibrators": ("what corrects confidences after training", _calibrators),
    "metrics": ("what calibrant measures", _metrics),
    "corruptions": ("how texts and images can be damaged, at five strengths", _corruptions),
}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    about = "; ".join(f"{kind}: {text}" for kind, (text, _) in KINDS.items())
    parser = commands.add_parser(
        "list",
        help="list tasks, methods, noises, calibrators, metrics or corruptions",
        description=f"List all names of one kind, each with one line and its paper. {about}.",
    )
    parser.add_argument("kind", metavar="KIND", help=f"what to list: {', '.join(KINDS)}")
    add_json(parser)
    parser.set_defaults(run=run)


def _plural(kind: str) -> str:
    """Return the kind as the table spells it: 'calibrator' means 'calibrators'."""
    for name in (kind, f"{kind}s"):
        if name in KINDS:
            return name
    raise unknown_name("kind of names", kind, KINDS, f"There are {', '.join(KINDS)}.")


def run(args: argparse.Namespace) -> int:
    """Print the table of one kind."""
    kind = _plural(args.kind)
    rows = KINDS[kind][1]()
    if args.json:
        print(document("list", {"kind": kind, "rows": rows}))
    else:
        headers = ["name", "about", "paper"]
        print(render_table(headers, [[row[key] for key in headers] for row in rows]))
    return 0
