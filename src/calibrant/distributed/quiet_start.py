"""Engines start in silence: their own lines on standard error are kept from the user."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["without_error_output"]


@contextmanager
def without_error_output() -> Iterator[Callable[[], str]]:
    """Collect what native code and child processes write to standard error; yield how to read it.

    Processes that are started meanwhile write there for as long as they live.

    >>> with without_error_output() as written:
    ...     _ = os.write(2, b"26/11/19 WARN Utils: Your hostname resolves to a loopback address")
    ...     written().partition("WARN ")[2]
    'Utils: Your hostname resolves to a loopback address'
    """
    try:
        kept = os.dup(2)
    except OSError:  # There is no standard error.
        yield str
        return
    with tempfile.TemporaryFile() as file:

        def written() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            _flush()
            os.dup2(file.fileno(), 2)
            yield written
        finally:
            _flush()
            os.dup2(kept, 2)
            os.close(kept)


def _flush() -> None:
    with suppress(AttributeError, ValueError):  # No stream, or a closed one.
        sys.stderr.flush()
