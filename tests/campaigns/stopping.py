"""Commands in child processes that are stopped after some lines of the code that writes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from calibrant import __main__, unfinished

# Code that writes: its lines are the moments.
TRACED = ("outputs.py", "unfinished.py", "run_folder.py", "study/writing.py", "checkpoint.py")
LONGEST = 600.0


def run(command: list[str], folder: Path, fresh: bool = False) -> None:
    process = start(command, folder, fresh=fresh)
    code = wait(process)
    if code:
        raise SystemExit(f"{command} ended with {code}: {errors(folder)}")


def start(
    command: list[str],
    folder: Path,
    lines: int = 0,
    which: int = signal.SIGKILL,
    fresh: bool = False,
) -> int | subprocess.Popen[bytes]:
    """A child that runs the command in ``folder`` and stops itself after this many ``lines``."""
    error_file = folder.parent / f"{folder.name}.errors"
    if fresh:
        with error_file.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "calibrant", *command],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
    sys.stdout.flush()
    sys.stderr.flush()
    stopping = [signal.SIGINT, signal.SIGTERM]
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)  # Until the child is the command's process.
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)
        return pid
    code = 70
    try:
        code = in_child(command, folder, error_file, lines, which)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:  # Right before the command's own code, or right after it.
        code = __main__._stopped
    except BaseException:
        traceback.print_exc()
    finally:
        sys.settrace(None)
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def in_child(command: list[str], folder: Path, error_file: Path, lines: int, which: int) -> int:
    os.chdir(folder)
    os.dup2(os.open(error_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    sys.argv = ["calibrant", *command]
    unfinished._swept.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, __main__._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    if not lines:
        return __main__.main()
    seen = 0

    def line(frame, event, _):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == lines:
                os.kill(os.getpid(), which)
        return line

    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename.endswith(TRACED) else None)
    code = __main__.main()
    sys.settrace(None)
    (folder.parent / f"{folder.name}.lines").write_text(str(seen))
    return code


def wait(process: int | subprocess.Popen[bytes]) -> int:
    """The exit code; −N where signal N ended it."""
    if not isinstance(process, int):
        return process.wait(LONGEST)
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise SystemExit("a command hangs")


def errors(folder: Path) -> str:
    return (folder.parent / f"{folder.name}.errors").read_text(errors="replace")
