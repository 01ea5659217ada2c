"""The command line: one file per command, each parses, calls the library and prints."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from calibrant import __version__
from calibrant.errors import CalibrantError
from calibrant.extras import mismatched_torchvision

__all__ = ["main"]

# Command → module. The modules import what they need when they run, so that --help is quick.
COMMANDS = (
    "audit", "compare", "fit", "apply", "train", "predict", "evaluate", "bench", "report",
    "corrupt", "list", "demo",
)  # fmt: skip

BAD_INPUT = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input ends with one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # A terminal that lacks "−" still gets the rest.
            stream.reconfigure(errors="backslashreplace")
    args, unknown = _parser().parse_known_args(argv)
    if unknown:  # Told by the command, whose --help has the options.
        _Parser(prog=f"calibrant {args.command}").error(f"unknown: {' '.join(unknown)}")
    try:
        return int(args.run(args))
    except CalibrantError as error:
        print(f"calibrant {args.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError as error:
        told = str(error).rstrip(".") or "the work does not fit"
        print(
            f"calibrant {args.command}: out of memory ({told}); ask for fewer bins or replicates, "
            "or take fewer rows at a time.",
            file=sys.stderr,
        )
        return BAD_INPUT
    except (ImportError, RuntimeError) as error:
        mismatch = mismatched_torchvision(error)
        if mismatch is None:
            raise
        print(f"calibrant {args.command}: {mismatch}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `calibrant … | head`: the reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # No permission, a disk that fails: the system's own words.
        where = f"{error.filename}: " if error.filename else ""
        print(f"calibrant {args.command}: {where}{error.strerror or error}.", file=sys.stderr)
        return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error does, instead of all options.

    Options are not abbreviated: ``--data`` of one command would be ``--data-dir`` of another.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; '{self.prog} --help' shows the options.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="calibrant",
        description="Honest confidence for neural classifiers: audit it, fix it, train for it.",
        epilog="'calibrant COMMAND --help' explains one command.",
    )
    parser.add_argument("--version", action="version", version=f"calibrant {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"calibrant.cli.{name}").add_parser(commands)
    return parser
