"""Thousands of malformed inputs, each refused in one line or read as it should be.

    python tests/fuzz/campaign.py --cases 20000 --seed 1 -o counts.json
    python tests/fuzz/campaign.py --replay 4711 --seed 1      # one case again, its files kept

Cases run in a child process, which is restarted when it hangs or dies.
"""

import argparse
import collections
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from families_arguments import RUN
from worker import FAMILIES, chosen_families, run_case

SLOW = 10.0  # Seconds: slower cases are listed, but do not fail.


class Child:
    """A process that runs cases, one at a time."""

    def __init__(self, seed, apart, families, limit):
        self.limit, self.apart = limit, apart
        self.command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(seed)]
        self.command += ["apart" if apart else "here", *families]
        self.process = None

    def verdict(self, number):
        """What came of one case; a hang and a death are verdicts too."""
        if self.process is None:
            self.start()
        self.process.stdin.write(b"%d\n" % number)
        self.process.stdin.flush()
        ready = self.answered()
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        code = self.process.poll() if ready else None
        self.close()
        oracle, seen = ("death", f"exit {code}") if ready else ("hang", f"over {self.limit} s")
        return {"number": number, "family": "?", "oracle": oracle, "seen": seen, "seconds": 0.0}

    def answered(self):
        """Whether an answer comes in time.

        Time is the processor's: on a machine that is busy with other work a case may wait for its
        turn. One that neither computes nor waits for a turn hangs as well, after as many seconds.
        """
        begun, asleep = _seconds(self.process.pid)[0], 0.0
        while asleep < self.limit:
            if select.select([self.process.stdout], [], [], self.limit / 60)[0]:
                return True
            used, runnable = _seconds(self.process.pid)
            asleep = 0.0 if runnable else asleep + self.limit / 60
            if used - begun > self.limit:
                return False
        return False

    def start(self):
        """Start the process, and wait until it has imported what is heavy."""
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.process.stdout.readline()

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def _seconds(pid):
    """The processor time of a process, and whether it computes or waits for a processor."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # No such folder on this system, or no such process any more.
        return 0.0, False
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), words[0] == "R"


def run_campaign(seed, numbers, *, apart=False, families=(), limit=60.0, jobs=1, tell=None):
    """The counts by family, the failures, and the seconds of the slowest case."""
    families = chosen_families(families)
    cases, failures, slowest = collections.Counter(), [], 0.0
    with ThreadPoolExecutor(jobs) as pool:
        parts = [numbers[job::jobs] for job in range(jobs)]
        children = [Child(seed, apart, families, limit) for _ in range(jobs)]
        for part in pool.map(lambda *work: _verdicts(*work, tell), children, parts):
            for verdict in part:
                cases[verdict["family"]] += 1
                slowest = max(slowest, verdict["seconds"])
                failures += [verdict] if "oracle" in verdict else []
    return dict(sorted(cases.items())), failures, slowest


def _verdicts(child, numbers, tell):
    found = []
    try:
        for number in numbers:
            found.append(child.verdict(number))
            if tell is not None:
                tell(found[-1])
    finally:
        child.close()
    return found


def circumstances():
    """Versions and the state of the source tree."""
    import importlib.metadata

    versions = {}
    for name in ("numpy", "pyarrow", "safetensors", "torch", "transformers", "tokenizers"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
        cwd=Path(__file__).parent, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    return {"git": git or None, "python": platform.python_version(), **versions}


def trained_run(folder):
    """A sound run of a tiny tagger, for folders of runs."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from calibrant.cli import main

    path = str(Path(folder) / "run")
    words = ["train", "--data", "synthetic", "--model", "tiny", "--epochs", "1", "--bootstrap", "0",
             "--device", "cpu", "--head-width", "8", "-o", path]  # fmt: skip
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        import contextlib

        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            code = main(words)
    if code:
        raise SystemExit(f"No run could be trained (exit code {code}).")
    return path


def main():
    """Run, print the failures, write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--apart", type=int, default=300, help="further cases in real processes")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--families", default="", help="names, separated by commas (all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run cases (1)")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="processor seconds that a case may take"
    )
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="run one case, keep its files")
    parser.add_argument("--without-runs", action="store_true", help="no damaged folders of runs")
    parser.add_argument("-o", "--output", type=Path, help="write the counts as JSON")
    args = parser.parse_args()
    families = [name.strip() for name in args.families.split(",") if name.strip()]
    for name in set(families) - set(FAMILIES):
        parser.error(f"no family '{name}'; there are {', '.join(FAMILIES)}")
    with tempfile.TemporaryDirectory() as folder:
        if not args.without_runs and (not families or "run folders" in families):
            os.environ.setdefault(RUN, trained_run(folder) if RUN not in os.environ else "")
        if args.replay is not None:
            return replay(args, families)
        return campaign(args, families)


def replay(args, families):
    folder = tempfile.mkdtemp(prefix=f"case-{args.replay}-")
    verdict = run_case(args.seed, args.replay, chosen_families(families), keep=folder)
    print(json.dumps(verdict, indent=1).replace("\\n", "\n"), f"\nFiles: {folder}")
    return int("oracle" in verdict)


def campaign(args, families):
    def tell(verdict):
        where = f"{verdict['number']} {verdict['family']}"
        if "oracle" in verdict:
            text = verdict["seen"].strip()
            print(f"{where}: {verdict['oracle']}: …{text[-300:]}\n", flush=True)
        if verdict["seconds"] > SLOW:
            print(f"{where}: slow: {verdict['seconds']} s", flush=True)

    start, ways = time.time(), {}
    everything = (("in one process", args.cases, args.first, False),
                  ("in processes of their own", args.apart, 10_000_000, True))  # fmt: skip
    failures = []
    for way, count, first, apart in everything:
        numbers = range(first, first + count)
        cases, failed, slowest = run_campaign(
            args.seed,
            numbers,
            apart=apart,
            families=families,
            limit=args.limit,
            jobs=args.jobs,
            tell=tell,
        )
        failures += failed
        kinds = collections.Counter(failure["oracle"] for failure in failed)
        ways[way] = {
            "cases": count, "first": first, "by family": cases, "failures": dict(kinds),
            "slowest case in seconds": slowest,
        }  # fmt: skip
    counts = {
        "program": "tests/fuzz/campaign.py", "seed": args.seed, "cases": args.cases + args.apart,
        "failures": len(failures), "tracebacks": 0, "hangs": 0, "wrong exits": 0,
        "seconds": round(time.time() - start), "ways": ways, "circumstances": circumstances(),
    }  # fmt: skip
    for name, oracles in (("tracebacks", ("traceback", "death")), ("hangs", ("hang",)),
                          ("wrong exits", ("exit code",))):  # fmt: skip
        counts[name] = sum(failure["oracle"] in oracles for failure in failures)
    print(json.dumps(counts, indent=1))
    if args.output is not None:
        args.output.write_text(json.dumps(counts, indent=1) + "\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
