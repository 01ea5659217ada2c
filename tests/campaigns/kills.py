"""Stop every command that writes, at every kind of moment, and see what it leaves.

``python tests/campaigns/kills.py --kills 300 --output FILE``. Each case runs a command undisturbed,
then again and again, each time stopped by SIGKILL, SIGTERM or SIGINT: after some seconds, or
after some lines of the code that writes, counted by a tracer in the child. Then

- what has its name is whole: as it was before, or as the undisturbed command leaves it;
- SIGINT ends with 130 and SIGTERM with 143, without a traceback, and leaves nothing unfinished;
- the same command again comes to the same result, and nothing else lies there.

Commands run in forks of this process, which has imported what is heavy; ``fresh`` ones in new
processes, which are stopped while they import too. ``--only NAME`` and ``--seed`` replay a case.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from killed_commands import Case, prepared
from left_over import content, differences, hidden
from stopping import errors, run, start, wait

import calibrant
from calibrant import unfinished

SIGNALS = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}


def main() -> int:
    args = parsed()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        cases = [case for case in prepared(root / "inputs", args) if chosen(case, args)]
        for case in cases:
            undisturbed(case, root / "whole" / case.name)
        moments = random.Random(args.seed)
        total = sum(case.share for case in cases)
        counts: collections.Counter[str] = collections.Counter()
        failures = []
        for case in cases:
            for number in range(max(1, round(args.kills * case.share / total))):
                facts, wrong = one_kill(case, root / "work", moments, number)
                counts.update(facts)
                failures += [
                    f"{case.name} #{number} ({', '.join(facts)}): {line}" for line in wrong
                ]
            print(f"{case.name}: {case.seconds:.2f} s, {case.lines} lines", file=sys.stderr)
    return report(args, cases, counts, failures)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases alone")
    parser.add_argument("--output", type=Path, help="write the counts as JSON")
    return parser.parse_args()


def chosen(case: Case, args: argparse.Namespace) -> bool:
    return args.only is None or case.name in args.only


def report(args, cases, counts, failures) -> int:
    versions = {"python": platform.python_version(), "calibrant": calibrant.__version__}
    for name in ("numpy", "pyarrow", "torch", "transformers"):
        if name in sys.modules:
            versions[name] = sys.modules[name].__version__
    content = {
        "program": "tests/campaigns/kills.py",
        "seed": args.seed,
        "kills": counts["kills"],
        "counts": dict(sorted(counts.items())),
        "cases": {case.name: {"lines": case.lines} for case in cases},
        "failures": failures,
        "versions": versions,
        "platform": platform.platform(),
    }
    text = json.dumps(content, indent=1)
    if args.output is not None:
        args.output.write_text(text + "\n")
    print(text)
    return 1 if failures else 0


def undisturbed(case: Case, folder: Path) -> None:
    """Learn how long it takes, how many lines it has, and what it leaves."""
    folder.mkdir(parents=True)
    case.before(folder)
    began = time.monotonic()
    run(case.command, folder, case.fresh)
    case.seconds = time.monotonic() - began
    case.whole = content(folder)
    if not case.fresh:
        shutil.rmtree(folder)
        folder.mkdir()
        case.before(folder)
        wait(start(case.command, folder, lines=sys.maxsize))
        case.lines = int((folder.parent / f"{folder.name}.lines").read_text())


def one_kill(
    case: Case, folder: Path, moments: random.Random, number: int
) -> tuple[list[str], list[str]]:
    """What was done, and what was wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case.before(folder)
    before = content(folder)
    which = list(SIGNALS)[number % len(SIGNALS)]
    facts = ["kills", which.name, case.name]
    if case.fresh or not case.lines or number % 4 == 3:
        process = start(case.command, folder, fresh=case.fresh)
        time.sleep(moments.uniform(0, case.seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process if isinstance(process, int) else process.pid, which)
        facts.append("by time")
    else:
        # Every other one in even steps, so that no part of a short command is left out.
        step = 1 + number * 37 % case.lines if number % 2 else moments.randint(1, case.lines)
        process = start(case.command, folder, step, which)
        facts.append("by line")
    code = wait(process)
    facts.append(f"{which.name} ended with {code}")
    wrong = list(wrongs_of_end(case, folder, which, code))
    wrong += wrongs_of_rest(case, folder, which, before)
    if content(folder) != case.whole or case.resumes:
        facts.append("again")
        again = wait(start(case.command, folder, fresh=case.fresh))
        if again:
            wrong.append(f"again: exit code {again}: {errors(folder)}")
    else:
        facts.append("was whole already")
        wait(start(["fit", "--help"], folder))
        unfinished.sweep(folder, again=True)  # As the next command that writes here.
    wrong += [f"after all: {line}" for line in differences(content(folder), case.whole)]
    wrong += [f"left behind: {name}" for name in hidden(folder)]
    return facts, wrong


def wrongs_of_end(case: Case, folder: Path, which: int, code: int) -> Iterator[str]:
    early = -int(which)  # Before Python had a handler, or while it was taken down.
    if code not in (0, SIGNALS[signal.Signals(which)], *([early] if case.fresh else [])):
        yield f"exit code {code}: {errors(folder)}"
    printed = errors(folder)
    if code == early and "calibrant" not in printed:
        return  # Python was starting, or being taken down: its traceback, and not ours.
    if "Traceback" in printed or "Error" in printed or "Exception" in printed:
        yield f"it printed: {printed[-300:]}"


def wrongs_of_rest(case: Case, folder: Path, which: int, before: dict[str, str]) -> Iterator[str]:
    """What has its name right after the kill is whole."""
    now = content(folder)
    if not case.resumes and now not in (before, case.whole):
        yield f"a part: {differences(now, case.whole)}"
    if which != signal.SIGKILL and not case.fresh:
        yield from (f"left by {signal.Signals(which).name}: {name}" for name in hidden(folder))


if __name__ == "__main__":
    sys.exit(main())
