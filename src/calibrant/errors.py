"""The errors that a user sees: one line that says who, what was expected, what came, what to do."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

__all__ = [
    "CalibrantError",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "nearest_name",
    "printable",
    "unknown_name",
]


class CalibrantError(Exception):
    """Base of every error raised on purpose; the command line prints it as one line.

    >>> try:
    ...     raise InputError("Labels are numbers from 0 to 2, got 7.")
    ... except CalibrantError as error:
    ...     print(error)
    Labels are numbers from 0 to 2, got 7.
    """


class InputError(CalibrantError, ValueError):
    """The data or an argument is not what the called function takes.

    >>> from calibrant import Predictions
    >>> Predictions.from_probabilities([[0.9, 0.3]], [0])
    Traceback (most recent call last):
    ...
    calibrant.validation.RowError: Probabilities must sum to 1 in each row; row 0 sums to 1.2, ...
    """


class NotFittedError(CalibrantError, AttributeError):
    """A calibrator was used before ``fit``.

    >>> from calibrant import Predictions, Temperature
    >>> Temperature().transform(Predictions.from_logits([[2.0, 0.0]], [0]))
    Traceback (most recent call last):
    ...
    calibrant.errors.NotFittedError: Temperature is not fitted: call fit(predictions) ...
    """


class MissingExtraError(CalibrantError, ImportError):
    """An optional dependency is not installed; the message holds its ``pip install``.

    >>> from calibrant.extras import require
    >>> require("no_such_module", "plots", "Drawing a reliability diagram")
    Traceback (most recent call last):
    ...
    calibrant.errors.MissingExtraError: Drawing a reliability diagram needs no_such_module, ...
    """


def unknown_name(what: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """Return the error for a name that is not in a table, with the nearest known one.

    >>> print(unknown_name("method", "focall", ["focal", "flsd"]))
    Unknown method 'focall'. Did you mean 'focal'?
    """
    known = sorted(known)
    advice = nearest_name(name, known) or f"Known: {', '.join(known) or 'none'}."
    return InputError(f"Unknown {what} '{name}'. {advice} {hint}".strip())


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return a question that names the known name nearest to ``name``; "" if none is near.

    >>> nearest_name("tinny", ["minilm", "tiny"])
    "Did you mean 'tiny'?"
    """
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"Did you mean '{near[0]}'?" if near else ""


def printable(text: str) -> str:
    """Return the text on one line, with escapes for what a terminal would act on.

    Names of files and columns may hold line breaks, colours, signs that turn the direction of what
    follows, or halves of characters. Spaces of all widths and the joiners of scripts stay.

    >>> print(printable("a\\nb \\x1b[31m é"))
    a\\nb \\x1b[31m é
    """
    if text.isprintable():
        return text
    return "".join(
        sign if _is_harmless(sign) else sign.encode("unicode_escape").decode() for sign in text
    )


def _is_harmless(sign: str) -> bool:
    return sign.isprintable() or sign in "\u200c\u200d" or unicodedata.category(sign) == "Zs"
