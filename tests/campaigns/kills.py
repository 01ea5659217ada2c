"""Stop every command that writes, at every kind of moment, and see what it leaves.

``python tests/campaigns/kills.py --kills 300 --output FILE``. Each case runs a command undisturbed,
then again and again, each time stopped by SIGKILL, SIGTERM or SIGINT: after so many seconds, or
after so many lines of the code that writes, counted by a tracer in the child. Then

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
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import calibrant
from calibrant import Predictions, unfinished
from calibrant.calibrators import Temperature
from calibrant.files import write

SIGNALS = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}
# Code that writes: its lines are the moments.
TRACED = ("outputs.py", "unfinished.py", "run_folder.py", "study/writing.py", "checkpoint.py")
LONGEST = 600.0


@dataclass
class Case:
    """A command, what it needs, and how often it is stopped for each hundred kills."""

    name: str
    command: list[str]
    share: int
    before: Callable[[Path], None] = field(default=lambda folder: None)
    fresh: bool = False
    resumes: bool = False  # What has its name may be a part, which the next attempt completes.
    seconds: float = 0.0
    lines: int = 0
    whole: dict[str, str] = field(default_factory=dict)


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
                told, wrong = one_kill(case, root / "work", moments, number)
                counts.update(told)
                failures += [f"{case.name} #{number} ({', '.join(told)}): {line}" for line in wrong]
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


# --- What is run ------------------------------------------------------------------------------


def prepared(inputs: Path, args: argparse.Namespace) -> list[Case]:
    """The cases, with the files that they read."""
    inputs.mkdir(parents=True)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6000, 5)) * 3
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    valid = Predictions.from_logits(logits, labels, groups={"sentence": np.arange(6000) // 6})
    for suffix in ("parquet", "csv.gz"):
        valid.write(inputs / f"valid.{suffix}")
    write(valid.chunks(1000), inputs / "shards")
    Temperature().fit(valid).save(inputs / "map.json")
    (inputs / "text.txt").write_text("The mayor of Port Tim, Rosa Lind, joined Ford.\n" * 3000)
    table = ["--report", "r.html", "--bootstrap", "20"]
    at = str(inputs)
    cases = [
        Case("fit", ["fit", f"{at}/valid.parquet", "-o", "m.json"], 10),
        Case("fit-fresh", ["fit", f"{at}/valid.parquet", "-o", "m.json"], 12, fresh=True),
        Case(
            "fit-over",
            ["fit", f"{at}/valid.parquet", "-o", "m.safetensors", "--overwrite"],
            6,
            before=lambda folder: (folder / "m.safetensors").write_text("an older map"),
        ),
        Case("apply", ["apply", f"{at}/map.json", f"{at}/valid.parquet", "-o", "p.parquet"], 8),
        Case("apply-gz", ["apply", f"{at}/map.json", f"{at}/valid.csv.gz", "-o", "p.csv.gz"], 5),
        Case("shards", ["apply", f"{at}/map.json", f"{at}/shards", "-o", "out"], 9),
        Case(
            "shards-over",
            ["apply", f"{at}/map.json", f"{at}/shards", "-o", "out", "--overwrite"],
            7,
            before=lambda folder: shutil.copytree(inputs / "shards", folder / "out"),
            resumes=True,
        ),
        Case("audit", ["audit", f"{at}/valid.parquet", *table], 8),
        Case(
            "corrupt",
            ["corrupt", f"{at}/text.txt", "--kind", "typos", "-o", "t.txt"],
            6,
        ),
    ]
    if args.only is None or any(with_torch(name) for name in args.only):
        cases += cases_with_torch(inputs, at)
    return cases


def with_torch(name: str) -> bool:
    return name in (
        "corrupt-images", "train", "train-trainer", "train-fresh", "bench", "predict", "evaluate",
        "report", "report-over",
    )  # fmt: skip


def cases_with_torch(inputs: Path, at: str) -> list[Case]:
    import torch

    torch.set_num_threads(1)
    import PIL.Image

    import calibrant.experiments.evaluation
    import calibrant.experiments.grid
    import calibrant.experiments.trainer_engine
    import calibrant.plots.shift
    import calibrant.study  # noqa: F401

    write_corpus(inputs / "corpus")
    for number in range(12):
        path = inputs / "images" / f"class-{number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(number).integers(0, 255, (24, 24), np.uint8)
        PIL.Image.fromarray(values).save(path)
    tiny = ["--model", "tiny", "--epochs", "2", "--batch", "16", "--head-width", "16", "--device",
            "cpu", "--dtype", "float32", "--bootstrap", "0", "--save-every", "0"]  # fmt: skip
    train = ["train", "--data", f"{at}/corpus", *tiny, "-o", "run"]
    grid = inputs / "grid.toml"
    grid.write_text(
        f'[defaults]\ndata = "{at}/corpus"\nmodel = "tiny"\nepochs = 1\nbatch = 16\n'
        'dtype = "float32"\nhead_width = 16\n[[grid]]\nmethod = ["cross_entropy", "focal"]\n'
        "seed = [0, 1]\n"
    )
    bench = ["bench", str(grid), "-o", "runs", "--device", "cpu", "--workers", "1"]
    run(["train", "--data", f"{at}/corpus", *tiny, "-o", f"{at}/run"], inputs)
    run(["bench", str(grid), "-o", f"{at}/records", "--device", "cpu", "--workers", "1"], inputs)
    (inputs / "texts.txt").write_text("The mayor of Port Tim , Rosa Lind , joined Ford .\n" * 40)
    study = ["report", f"{at}/records", "-o", "out"]
    images = ["corrupt", f"{at}/images", "--kind", "jpeg", "-o", "out"]
    predict = ["predict", f"{at}/run", f"{at}/texts.txt", "-o", "e.jsonl", "--device", "cpu"]
    evaluate = ["evaluate", f"{at}/run", "--corrupt", "typos-1", "--figure", "f.svg", "--device",
                "cpu"]  # fmt: skip
    return [
        Case("corrupt-images", images, 6),
        Case("predict", predict, 6),
        Case("evaluate", evaluate, 4),
        Case("report", study, 6),
        Case(
            "report-over",
            [*study, "--overwrite"],
            5,
            before=lambda folder: older_report(folder / "out"),
            resumes=True,
        ),
        Case("train", train, 12, resumes=True),
        Case("train-trainer", [*train, "--engine", "trainer"], 4, resumes=True),
        Case("train-fresh", train, 1, resumes=True, fresh=True),
        Case("bench", bench, 3, resumes=True),
    ]


def write_corpus(folder: Path) -> None:
    from calibrant.tasks.synthetic import generate_splits

    folder.mkdir()
    for split, sentences in generate_splits(0, train=64, dev=32, test=24, ood=0).items():
        blocks = (
            "".join(f"{word}\t{tag}\n" for word, tag in zip(s.words, s.tags, strict=True))
            for s in sentences
        )
        if sentences:
            (folder / f"{split}.conll").write_text("\n".join(blocks))


def older_report(folder: Path) -> None:
    (folder / "tables").mkdir(parents=True)
    for name in ("index.html", "tables/stale.csv"):
        (folder / name).write_text("older")
    (folder / "study.json").write_text(json.dumps({"files": ["tables/stale.csv"]}))


# --- How it is run and stopped ----------------------------------------------------------------


def run(command: list[str], folder: Path, fresh: bool = False) -> None:
    process = start(command, folder, fresh=fresh)
    code = wait(process)
    if code:
        raise SystemExit(f"{command} ended with {code}: {errors(folder)}")


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
    told = ["kills", which.name, case.name]
    if case.fresh or not case.lines or number % 4 == 3:
        process = start(case.command, folder, fresh=case.fresh)
        time.sleep(moments.uniform(0, case.seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process if isinstance(process, int) else process.pid, which)
        told.append("by time")
    else:
        # Every other one in even steps, so that no part of a short command is left out.
        step = 1 + number * 37 % case.lines if number % 2 else moments.randint(1, case.lines)
        process = start(case.command, folder, step, which)
        told.append("by line")
    code = wait(process)
    told.append(f"{which.name} ended with {code}")
    wrong = list(wrongs_of_end(case, folder, which, code))
    wrong += wrongs_of_rest(case, folder, which, before)
    if content(folder) != case.whole or case.resumes:
        told.append("again")
        again = wait(start(case.command, folder, fresh=case.fresh))
        if again:
            wrong.append(f"again: exit code {again}: {errors(folder)}")
    else:
        told.append("was whole already")
        wait(start(["fit", "--help"], folder))
        unfinished.sweep(folder, again=True)  # As the next command that writes here.
    wrong += [f"after all: {line}" for line in differences(content(folder), case.whole)]
    wrong += [f"left behind: {name}" for name in hidden(folder)]
    return told, wrong


def wrongs_of_end(case: Case, folder: Path, which: int, code: int) -> Iterator[str]:
    early = -int(which)  # Before Python had a handler, or while it was taken down.
    if code not in (0, SIGNALS[signal.Signals(which)], *([early] if case.fresh else [])):
        yield f"exit code {code}: {errors(folder)}"
    said = errors(folder)
    if "Traceback" in said or "Error" in said or "Exception" in said:
        yield f"it said: {said[-300:]}"


def wrongs_of_rest(case: Case, folder: Path, which: int, before: dict[str, str]) -> Iterator[str]:
    """What has its name right after the kill is whole."""
    now = content(folder)
    if not case.resumes and now not in (before, case.whole):
        yield f"a part: {differences(now, case.whole)}"
    if which != signal.SIGKILL and not case.fresh:
        yield from (f"left by {signal.Signals(which).name}: {name}" for name in hidden(folder))


def start(
    command: list[str],
    folder: Path,
    lines: int = 0,
    which: int = signal.SIGKILL,
    fresh: bool = False,
) -> int | subprocess.Popen[bytes]:
    """A child that runs the command in ``folder`` and stops itself after so many ``lines``."""
    said = folder.parent / f"{folder.name}.errors"
    if fresh:
        with said.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "calibrant", *command],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = in_child(command, folder, said, lines, which)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.settrace(None)
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def in_child(command: list[str], folder: Path, said: Path, lines: int, which: int) -> int:
    from calibrant.__main__ import main as run_command

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    sys.argv = ["calibrant", *command]
    unfinished._swept.clear()
    if not lines:
        return run_command()
    seen = 0

    def line(frame, event, _):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == lines:
                os.kill(os.getpid(), which)
        return line

    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename.endswith(TRACED) else None)
    code = run_command()
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


# --- What it leaves ---------------------------------------------------------------------------


def hidden(folder: Path) -> list[str]:
    return [str(p.relative_to(folder)) for p in folder.rglob(".calibrant-*")]


def content(folder: Path) -> dict[str, str]:
    """Each file that has its name, with a digest of what in it does not depend on the clock."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in name.split("/")):
            found[name] = hashlib.sha256(lasting(path)).hexdigest()[:16]
    return found


def lasting(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.parent.name == "runs" or path.name == "metrics.json":
        record = json.loads(raw)
        record.pop("circumstances")
        record["training"].pop("seconds", None)
        return json.dumps(record, sort_keys=True).encode()
    if path.name == "log.jsonl":
        rows = [json.loads(line) for line in raw.splitlines()]
        return json.dumps([{k: v for k, v in r.items() if k != "seconds"} for r in rows]).encode()
    return raw


def differences(found: dict[str, str], whole: dict[str, str]) -> list[str]:
    lines = [f"{name} is missing" for name in whole.keys() - found.keys()]
    lines += [f"{name} is too much" for name in found.keys() - whole.keys()]
    lines += [
        f"{name} differs" for name in found.keys() & whole.keys() if found[name] != whole[name]
    ]
    return sorted(lines)


if __name__ == "__main__":
    sys.exit(main())
