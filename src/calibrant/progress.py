"""A progress bar for what takes longer than two seconds, on a terminal, and silence otherwise."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress"]

_PATIENCE = 2.0  # Seconds before anything is shown.
_EVERY = 0.1  # Seconds between two drawings: the eye sees no more.


class Progress:
    """Shows how far a piece of work is, with its rate and the time that remains.

    Nothing is written in the first two seconds, nor where ``stream`` (standard error) is not a
    terminal, unless ``force``. The bar is wiped out at the end, so that it leaves no trace.

    >>> with Progress(total=3, what="rows") as progress:
    ...     for _ in range(3):
    ...         progress.advance()
    >>> progress.done
    3
    """

    def __init__(
        self,
        total: int | None,
        what: str,
        *,
        stream: TextIO | None = None,
        force: bool = False,
        clock: Callable[[], float] = time.monotonic,
        width: Callable[[], int] | None = None,
    ) -> None:
        self.total, self.what, self.done = total, what, 0
        self._stream = sys.stderr if stream is None else stream
        self._shows = force or _is_terminal(self._stream)
        self._clock = clock
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self._began = clock()
        self._next = self._began + _PATIENCE
        self._drawn = 0

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` more; draw when it is time to."""
        self.done += steps
        if not self._shows:
            return
        now = self._clock()
        if now >= self._next:
            self._next = now + _EVERY
            self._draw(now - self._began)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()

    def _draw(self, seconds: float) -> None:
        room = max(0, self._width() - 1)  # The last column would make some terminals wrap.
        line = self._line(seconds, room)
        self._stream.write("\r" + line + " " * (self._drawn - len(line)))
        self._stream.flush()
        self._drawn = len(line)

    def _line(self, seconds: float, room: int) -> str:
        rate = self.done / seconds if seconds > 0 else 0.0
        text = f"{_short(self.done)} {self.what}, {_short(rate)}/s"
        if not self.total:
            return text[:room]
        share = min(1.0, self.done / self.total)
        left = _duration((self.total - self.done) / rate) if rate else "?"
        text = f"{share:4.0%} {text}, {left} left"
        cells = min(30, room - len(text) - 3)
        if cells < 5:
            return text[:room]
        full = int(share * cells)
        return f"[{'#' * full}{'-' * (cells - full)}] {text}"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # No stream (pythonw), or a closed one.
        return False


def _short(number: float) -> str:
    """Return three digits and a letter.

    >>> _short(999), _short(12_345), _short(2.5e6)
    ('999', '12.3k', '2.50M')
    """
    for letter in ("", "k", "M", "G"):
        if number < 999.5 or letter == "G":
            break
        number /= 1000
    whole = letter == "" and number == int(number)
    digits = 0 if whole or number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f}{letter}"


def _duration(seconds: float) -> str:
    """Return hours, minutes and seconds as far as they matter.

    >>> _duration(0), _duration(75), _duration(7265)
    ('0 s', '1:15', '2:01:05')
    """
    seconds = max(0, round(seconds))
    minutes, rest = divmod(seconds, 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
