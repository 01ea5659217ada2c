"""``python -m benchmarks.reproduction``: ``calibrant report`` with the papers' tables in it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from calibrant.cli.report import add_options, run
from calibrant.errors import CalibrantError

from .tables import reproduction_tables


def main(argv: Sequence[str] | None = None) -> int:
    """Write or print the report; bad input ends with one line and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduction",
        description="The report of 'calibrant report', with the papers' numbers, their claims, "
        "and which recipe reaches the target.",
    )
    add_options(parser)
    try:
        return run(parser.parse_args(argv), reproduction_tables)
    except CalibrantError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
