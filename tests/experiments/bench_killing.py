"""Run a grid in child processes that are killed at random moments; run by test_bench_killed.py.

The parent imports what is heavy and prepares the data, and each attempt is a fork of it.
"""

import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch

from calibrant.experiments.grid import run_grid
from calibrant.experiments.preparation import build_model, prepare
from calibrant.experiments.recipe import read_recipes


def attempt(recipes, folder):
    """A child that runs the grid; its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for path in run_grid(recipes, folder, device="cpu", workers=1):
                print("record", path.name, flush=True)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def records(folder):
    return len(list(folder.glob("[!.]*.json")))


def kill_after(pid, folder, more, delay):
    """Kill the child so many more records and seconds later."""
    wanted = records(folder) + more
    while records(folder) < wanted:
        if os.waitpid(pid, os.WNOHANG)[0]:
            sys.exit("an attempt ended before it was killed")
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print("killed", pid, flush=True)


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    recipes, folder, moments = read_recipes(sys.argv[1]), Path(sys.argv[2]), random.Random(1)
    build_model(recipes[0], prepare(recipes[0]))
    for _ in range(2):
        more, delay = moments.randint(1, 2), moments.uniform(0, 0.1)
        kill_after(attempt(recipes, folder), folder, more, delay)
    if os.waitpid(attempt(recipes, folder), 0)[1]:
        sys.exit("the last attempt failed")


if __name__ == "__main__":
    main()
