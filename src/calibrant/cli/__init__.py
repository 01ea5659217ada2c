"""The command line: one file per command, each parses, calls the library and prints."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from calibrant import __version__
from calibrant.cli.old_options import with_new_options
from calibrant.errors import CalibrantError, nearest_name, printable, unknown_name
from calibrant.extras import describe_missing, mismatched_torchvision
from calibrant.inputs import shortened

__all__ = ["main"]

# Command → module. The modules import what they need when they run, so that --help is quick.
COMMANDS = (
    "audit", "compare", "fit", "apply", "adapt", "guarantee", "train", "wrap", "predict", "export",
    "serve", "review", "evaluate", "watch", "bench", "report", "corrupt", "list", "demo",
    "doctor", "completion",
)  # fmt: skip

BAD_INPUT = 2
DEFECT = 70  # EX_SOFTWARE of sysexits.h.
INTERRUPTED = 130

GREETING = """\
calibrant: honest confidence for neural classifiers. Four commands to try:

  calibrant audit FILE --report audit.html   how far can the confidences in a file be trusted?
  calibrant compare VALID TEST               which calibrator fixes them best?
  calibrant demo                             train and compare methods on a small corpus
  calibrant doctor                           what is installed, and what could be?

FILE has predictions and true labels: csv, jsonl, npz, parquet and more.
'calibrant --help' shows all commands.
"""

_LONGEST = 1200  # Characters of a message, which may quote a long input.


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input ends with one line on standard error and exit code 2.

    Any other exception is a defect of calibrant: one line and exit code 70. With
    ``CALIBRANT_DEBUG=1`` in the environment every error shows its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # A terminal that lacks "−" still gets the rest.
            stream.reconfigure(errors="backslashreplace")
    # Of large pictures and damaged EXIF data, with lines of code; what cannot be read is an error.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    argv = with_new_options(sys.argv[1:] if argv is None else argv)
    if not argv:
        print(GREETING, end="")
        return 0
    _check_command(argv)
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.commands[args.command].refuse(unknown)
    try:
        status = int(args.run(args))
        sys.stdout.flush()  # A reader that has left shows here, not when the process ends.
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `calibrant … | head`: the reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("CALIBRANT_DEBUG"):
            raise
        code, message = _described(error)
        print(f"calibrant {args.command}: {_one_line(message, _LONGEST)}", file=sys.stderr)
        return code


def _check_command(argv: Sequence[str]) -> None:
    """Refuse an unknown command with the nearest known one, which argparse does not name."""
    if argv and argv[0] not in COMMANDS and not argv[0].startswith("-"):
        error = unknown_name("command", argv[0], COMMANDS, "'calibrant --help' shows all.")
        _Parser(prog="calibrant").exit(BAD_INPUT, f"calibrant: {_one_line(str(error), 400)}\n")


def _one_line(message: str, most: int) -> str:
    return shortened(printable(message), most)


def _described(error: Exception) -> tuple[int, str]:
    """Return the exit code and the line for an error."""
    if isinstance(error, CalibrantError):
        return BAD_INPUT, str(error)
    if isinstance(error, ModuleNotFoundError) and (missing := describe_missing(error)):
        return BAD_INPUT, missing
    if isinstance(error, MemoryError):
        cause = str(error).rstrip(".") or "the data does not fit"
        return BAD_INPUT, (
            f"out of memory ({cause}); use fewer bins or replicates, or fewer rows at a time."
        )
    if mismatch := mismatched_torchvision(error):
        return BAD_INPUT, mismatch
    if isinstance(error, OSError):  # No permission, a disk that fails: the system's own words.
        where = f"{error.filename}: " if error.filename else ""
        return BAD_INPUT, f"{where}{error.strerror or error}."
    cause = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 200)
    return DEFECT, (
        f"this is a defect of calibrant, not of your input ({cause}); please report it with the "
        "traceback that CALIBRANT_DEBUG=1 in the environment shows."
    )


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line and does not print all options.

    Options cannot be abbreviated: ``--data`` of one command would be ``--data-dir`` of another.
    """

    # Adds the options that are slow to compute, when they are needed.
    later: Callable[[argparse.ArgumentParser], None] | None = None
    commands: Mapping[str, _Parser]

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def add_later(self) -> None:
        """Add the options that are slow to compute, if they are not there yet."""
        if self.later is not None:
            add, self.later = self.later, None
            add(self)

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        self.add_later()
        return super().parse_known_args(*given, **named)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Report arguments that are not known, and the option that the first one resembles."""
        shown = " ".join(argument or "'' (an empty argument)" for argument in unknown)
        # Without the dashes, which would make all options look alike.
        options = [option[2:] for option in self._option_string_actions if option[:2] == "--"]
        given = unknown[0].partition("=")[0].removeprefix("--")
        longer = [option for option in options if option.startswith(f"{given}-")]
        near = nearest_name(longer[0] if len(longer) == 1 else given, options)
        near = near.replace("'", "'--", 1)
        self.error(f"unknown: {shown}. {near}" if near else f"unknown: {shown}")

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            near = nearest_name(choice[1], re.findall(r"[\w-]+", choice[2]))
            message = f"{message}. {near}" if near else message
        message = _one_line(message, 400)
        mark = "" if message.endswith("?") else ";"
        help_ = f"'{self.prog} --help' shows the options."
        self.exit(BAD_INPUT, f"{self.prog}: {message}{mark} {help_}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="calibrant",
        description="Honest confidence for neural classifiers: audit it, fix it, train for it.",
        epilog="'calibrant COMMAND --help' explains one command.",
    )
    parser.add_argument("--version", action="version", version=f"calibrant {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"calibrant.cli.{name}").add_parser(commands)
    parser.commands = commands.choices
    return parser
