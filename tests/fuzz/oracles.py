"""What must hold for any input, and how to run a command to check it."""

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import traceback
import warnings
from dataclasses import dataclass

LONGEST_MESSAGE = 2000
DEFECT = 70


class FailureError(Exception):
    """An oracle that was not met: its name, and what was seen."""

    def __init__(self, oracle, seen):
        super().__init__(f"{oracle}: {seen}")
        self.oracle, self.seen = oracle, seen


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def refused(self):
        return self.code == 2


def run_here(arguments):
    """``calibrant ARGUMENTS`` in this process, checked."""
    outcome = _main(arguments)
    if outcome.code == DEFECT:
        os.environ["CALIBRANT_DEBUG"] = "1"
        try:
            outcome = _main(arguments)
        finally:
            del os.environ["CALIBRANT_DEBUG"]
    return _checked(arguments, outcome)


@functools.cache
def _parser():
    """The parser of all commands, made once: it takes longer than most cases."""
    from calibrant import cli

    return cli._parser()


def _main(arguments):
    from calibrant import cli

    make, parser = cli._parser, _parser()
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with (
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always", RuntimeWarning)
        cli._parser = lambda: parser
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception:
            code = DEFECT
            traceback.print_exc(file=streams[1])
        finally:
            cli._parser = make
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    return Outcome(code, *texts)


def run_apart(arguments, timeout=120):
    """``calibrant ARGUMENTS`` in a separate process, checked."""
    command = [sys.executable, "-m", "calibrant", *arguments]
    try:
        encoded = [os.fsencode(word) for word in command]
        done = subprocess.run(
            encoded, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except (UnicodeEncodeError, ValueError):  # No process can be given such an argument.
        return Outcome(2, "", "")
    except subprocess.TimeoutExpired:
        raise FailureError("hang", f"over {timeout} s") from None
    texts = [text.decode("utf-8", "replace") for text in (done.stdout, done.stderr)]
    return _checked(arguments, Outcome(done.returncode, *texts))


def _checked(arguments, outcome):
    for text in (outcome.err, outcome.out):
        if "Traceback (most recent call last)" in text:
            raise FailureError("traceback", text[-1500:])
    if outcome.code not in (0, 2):
        raise FailureError("exit code", f"{outcome.code}: {outcome.err[-500:]}")
    if outcome.code == 2:
        _check_message(outcome.err)
    elif "Warning: " in outcome.err:
        raise FailureError("warning", outcome.err[-500:])
    elif "--json" in arguments and arguments[0] in ("audit", "fit", "compare", "report", "list"):
        strict_json(outcome.out)
    return outcome


def _check_message(text):
    lines = text.split("\n")
    if len(lines) != 2 or lines[1] or not lines[0].startswith("calibrant"):
        raise FailureError("one line", repr(text[:500]))
    if len(text) > LONGEST_MESSAGE:
        raise FailureError("short line", f"{len(text)} characters: {text[:300]}")
    if any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in lines[0]):
        raise FailureError("escaped line", repr(text[:300]))


def strict_json(text):
    """The value of a JSON document without NaN and Infinity."""

    def refuse(word):
        raise FailureError("strict JSON", f"{word} in {text[:200]}")

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise FailureError("strict JSON", f"{error} in {text[:200]!r}") from None


def call(function):
    """What a function of the library gives, or the words with which it refuses."""
    from calibrant.errors import CalibrantError

    try:
        return function(), None
    except CalibrantError as error:
        return None, str(error)
    except Exception:
        raise FailureError("traceback", traceback.format_exc()[-1500:]) from None


def same_numbers(first, second, path=""):
    """Where two documents differ in more than the last bits of a number; None if nowhere."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted(set(first) | set(second))
        found = (same_numbers(first.get(k), second.get(k), f"{path}/{k}") for k in keys)
        return next((where for where in found if where), None)
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        found = (same_numbers(a, b, f"{path}/{i}") for i, (a, b) in pairs)
        return next((where for where in found if where), None)
    if isinstance(first, float) and isinstance(second, (int, float)):
        close = abs(first - second) <= 1e-9 * max(1, abs(first))
        return None if close else f"{path}: {first} and {second}"
    return None if first == second else f"{path}: {first!r:.80} and {second!r:.80}"
