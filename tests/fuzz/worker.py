"""Runs cases by number in one process: numbers on standard input, verdicts as JSON lines."""

import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from families_arguments import RUN, arguments, run_folders, special_files
from families_documents import corpora, label_names, maps, recipes, records
from families_predictions import (
    agreement,
    damage,
    gzip_bomb,
    hostile_file,
    truncated_text,
    two_readers,
)
from oracles import FailureError, run_apart, run_here

MOST_MEMORY = 16 << 30  # Bytes of addresses: torch alone takes many.

# Family → how often it comes, and its cases.
FAMILIES = {
    "csv": (40, hostile_file("csv")),
    "jsonl": (40, hostile_file("jsonl")),
    "parquet": (40, hostile_file("parquet")),
    "npz": (40, hostile_file("npz")),
    "safetensors": (30, hostile_file("safetensors")),
    "formats agree": (10, agreement),
    "csv readers agree": (30, two_readers("csv")),
    "jsonl readers agree": (30, two_readers("jsonl")),
    "damage": (30, damage),
    "truncated text": (10, truncated_text),
    "unpacking": (2, gzip_bomb),
    "maps": (40, maps),
    "recipes": (20, recipes),
    "records": (20, records),
    "corpora": (30, corpora),
    "label names": (10, label_names),
    "arguments": (40, arguments),
    "special files": (20, special_files),
    "run folders": (4, run_folders),
}


def chosen_families(names):
    """The families of these names, or all that can be run here."""
    if not names:
        names = [name for name in FAMILIES if name != "run folders" or RUN in os.environ]
    return list(names)


def run_case(seed, number, families, apart=False, keep=None):
    """The verdict on one case; ``keep`` is a folder in which its files stay."""
    generator = random.Random(f"{seed}/{number}")
    weights = [FAMILIES[name][0] for name in families]
    family = generator.choices(families, weights)[0]
    folder = Path(tempfile.mkdtemp(prefix="calibrant-fuzz-")) if keep is None else Path(keep)
    called = []

    def run(words):
        called.append(words)
        return (run_apart if apart else run_here)(words)

    start, verdict = time.perf_counter(), {"number": number, "family": family}
    os.chdir(folder)  # Some arguments name files relative to it.
    try:
        FAMILIES[family][1](generator, folder, run)
    except FailureError as failure:
        verdict |= {"oracle": failure.oracle, "seen": failure.seen, "arguments": called[-1:]}
    except Exception:
        verdict |= {"oracle": "generator", "seen": traceback.format_exc(), "arguments": called[-1:]}
    finally:
        os.chdir("/")
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return verdict | {"seconds": round(time.perf_counter() - start, 3)}


def _warm_up(families):
    """Import what is heavy before time is measured."""
    import calibrant.cli

    if "run folders" in families:
        calibrant.load_run(os.environ[RUN], "cpu").predict(["Rosa Lind"])


def main():
    """Answer each number with a verdict."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of libraries must not come between the verdicts.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - commands read the other one
    numbers, sys.stdin = sys.stdin, open(os.devnull)  # noqa: PTH123, SIM115
    seed, apart, *names = sys.argv[1:]
    families = chosen_families(names)
    _warm_up(families)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in numbers:
        verdict = run_case(seed, int(line), families, apart == "apart")
        print(json.dumps(verdict), file=answers, flush=True)


if __name__ == "__main__":
    main()
