"""Models of others: their code runs only if the user allows it, and errors are one line.

Without an explicit setting, transformers asks on standard input whether to run a model's own code,
and would read the data there as the answer. The caller gives the permission. It is not a setting of
a recipe, because a folder would grant it to itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from calibrant.errors import CalibrantError, InputError
from calibrant.extras import describe_missing, mismatched_torchvision, require
from calibrant.tasks.reading.hub import first_line

__all__ = ["loading", "quiet", "trusted", "trusting"]

_TRUSTED = ContextVar("calibrant_trusts_remote_code", default=False)
_UNTRUSTED = (
    "it comes with its own code, which runs only with --trust-remote-code (in Python: "
    "trust_remote_code=True), if you trust whoever wrote it."
)


@contextlib.contextmanager
def trusting(remote_code: bool = True) -> Iterator[None]:
    """Allow models that are loaded inside the block to run their own code, or forbid it.

    >>> with trusting():
    ...     trusted()
    True
    >>> trusted()
    False
    """
    before = _TRUSTED.set(remote_code)
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def trusted() -> bool:
    """Return the ``trust_remote_code`` that every ``from_pretrained`` gets."""
    return _TRUSTED.get()


@contextlib.contextmanager
def loading(failure: str, hint: str = "") -> Iterator[None]:
    """Turn every error inside the block into an :class:`InputError` with its reason and a hint.

    Damaged and foreign files end in errors of every kind.

    >>> with loading("Cannot load 'x'"):
    ...     raise KeyError("model_type")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Cannot load 'x': KeyError 'model_type'.
    """
    try:
        with quiet():
            yield
    except (CalibrantError, MemoryError):
        raise
    except Exception as error:
        if mismatched_torchvision(error) is not None:
            raise
        raise InputError(f"{failure}: {_reason(error)} {hint}".strip()) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and advice of transformers."""
    logging = require("transformers", "transformers", "A model of transformers").utils.logging
    loud, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(loud)
        if bars:
            logging.enable_progress_bar()


def _reason(error: BaseException) -> str:
    if "trust_remote_code" in str(error):
        return _UNTRUSTED
    if isinstance(error, ModuleNotFoundError) and (missing := describe_missing(error)):
        return missing
    if isinstance(error, (OSError, ValueError, RuntimeError, ImportError)):
        return first_line(error)
    return f"{type(error).__name__} {first_line(error)}"  # Its message alone says little.
