"""Old spellings on the command line: each works for one release and prints one line."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "OLD_OPTIONS",
    "calibrator_name",
    "method_name",
    "metric_name",
    "printed_renames",
    "with_new_options",
]

# Command → old option → new option.
OLD_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "adapt": {"--by": "--keep-together"},
    "audit": {"--with": "--calibrator", "--by": "--keep-together"},
    "compare": {"--methods": "--calibrators"},
    "fit": {"--method": "--calibrator"},
    "guarantee": {"--by": "--keep-together"},
    "report": {"--maps": "--calibrators"},
    "watch": {"--map": "--calibrator", "--by": "--keep-together"},
}


def with_new_options(argv: Sequence[str]) -> list[str]:
    """Return the arguments of a command with today's options, with a warning for each old one.

    >>> with_new_options(["fit", "valid.npz", "--calibrator=beta"])
    ['fit', 'valid.npz', '--calibrator=beta']
    """
    renamed = OLD_OPTIONS.get(argv[0] if argv else "", {})
    return [_with_new_option(argument, argv[0], renamed) for argument in argv]


def _with_new_option(argument: str, command: str, renamed: Mapping[str, str]) -> str:
    option, equals, value = argument.partition("=")
    if option not in renamed:
        return argument
    _warn(f"calibrant {command}: {option} is now {renamed[option]}; the old option")
    return f"{renamed[option]}{equals}{value}"


def calibrator_name(text: str) -> str:
    """Return the name of a calibrator, as the table has it: with hyphens. Others stay as they are.

    >>> calibrator_name("isotonic-top-label")
    'isotonic-top-label'
    """
    from calibrant.calibrators import CALIBRATORS

    new = text.replace("_", "-")
    if new not in CALIBRATORS:
        return text
    _warn_of_underscores(text)
    return new


def method_name(text: str) -> str:
    """Return the name of a method, as the table and records have it: with underscores.

    >>> method_name("head-noise")
    'head_noise'
    """
    from calibrant.methods import METHODS

    name = text.replace("-", "_")
    if name in METHODS:
        _warn_of_underscores(text)
    return name


def _warn_of_underscores(text: str) -> None:
    if "_" in text:
        _warn(f"calibrant: '{text}' is now '{text.replace('_', '-')}'; the name with underscores")


def metric_name(text: str) -> str:
    """Return the name of a metric, as the table has it.

    >>> metric_name("ece")
    'ece'
    """
    from calibrant.metrics.table import with_new_names

    (new,) = with_new_names({text: None})
    if new != text:
        _warn(f"calibrant: the metric '{text}' is now '{new}'; the old name")
    return new


@contextlib.contextmanager
def printed_renames(command: str) -> Iterator[None]:
    """Print one line for each old name that the library warns about inside the block."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FutureWarning)
        yield
    for message in dict.fromkeys(str(w.message) for w in caught if w.category is FutureWarning):
        print(f"calibrant {command}: {message}", file=sys.stderr)


def _warn(renaming: str) -> None:
    print(f"{renaming} will be removed in the next release.", file=sys.stderr)
