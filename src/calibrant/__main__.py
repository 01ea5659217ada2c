"""The process of the command line: ``calibrant`` and ``python -m calibrant``.

It handles signals before anything heavy is imported. At any moment, Ctrl-C ends it with exit code
130 and SIGTERM with 143, without a message.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # As in the package: nothing that can wait is imported.
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

__all__ = ["main"]

_IMPORTS = "<frozen importlib._bootstrap>"
_stopped = 0  # The exit code of the signal that stopped it.


def main() -> int:
    """Run the command of ``sys.argv``; return the exit code."""
    _open_streams()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As nohup leaves it.
            signal.signal(number, _stop)
    sys.unraisablehook = _unraisable
    try:
        from calibrant.cli import main as run

        code = run()
    except BaseException as error:  # Once it is stopped, all errors come from that.
        if not _stopped and not isinstance(error, KeyboardInterrupt):
            raise
        code = 128 + signal.SIGINT
    _remove_unfinished()
    return _stopped or code


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt if it is sure to arrive; else end here.

    A module that is being imported may treat it as its own failure and continue without the import.
    A second signal ends the process at once, without tidying up.
    """
    global _stopped
    again, _stopped = bool(_stopped), 128 + number
    if again or _is_importing(frame):
        _leave()
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _unraisable(caught: Any) -> None:
    """Keep an interrupt that came where nothing can be raised."""
    if _stopped:
        _leave()
    sys.__unraisablehook__(caught)


def _leave() -> None:
    _remove_unfinished()
    os._exit(_stopped)


def _remove_unfinished() -> None:
    module = sys.modules.get("calibrant.unfinished")
    remove_all = getattr(module, "remove_all", None)  # Not while it is being imported.
    if remove_all is not None:
        remove_all()


def _open_streams() -> None:
    """Redirect closed standard streams to nowhere: otherwise the next opened file becomes one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the lowest number that is free: this one.
        if getattr(sys, name) is None:
            stream = os.fdopen(number, "r" if number == 0 else "w", closefd=False)
            setattr(sys, name, stream)


if __name__ == "__main__":
    sys.exit(main())
