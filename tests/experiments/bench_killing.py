"""Run a grid in child processes that are killed at random moments; run by test_bench_killed.py.

The parent imports what is heavy and prepares the data, and each attempt is a fork of it. A child
kills itself, so that the moment is one of its work and not of a clock: whatever else the machine
does, there are records before it and there is work left after it.
"""

import os
import random
import signal
import sys
import traceback
import warnings
from pathlib import Path

import torch

from calibrant.experiments import grid
from calibrant.experiments.recipe_file import read_recipes
from calibrant.experiments.record import Record
from calibrant.tasks import task_of
from calibrant.tasks.ner.data import prepare


def attempt(recipes, folder, records=None, steps=0):
    """A child that runs the grid, until it has this many records and steps more; how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if records is not None:
                kill_after(records, steps)
            for path in grid.run_grid(recipes, folder, device="cpu", workers=1):
                print("record", path.name, flush=True)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_after(records, steps):
    """Let this process die this many training steps after that record, or as it writes the next."""
    written, left = 0, steps
    write, run_cell = Record.write, grid.run_cell

    def written_or_killed(record, *where):
        nonlocal written
        if written == records:
            die()
        path = write(record, *where)
        written += 1
        return path

    def trained_or_killed(*cell):
        nonlocal left
        for turn in run_cell(*cell):
            if written == records:
                left -= 1
                if left < 0:
                    die()
            yield turn

    Record.write, grid.run_cell = written_or_killed, trained_or_killed


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    recipes, folder, moments = read_recipes(sys.argv[1]), Path(sys.argv[2]), random.Random(1)
    task_of("ner").build_model(recipes[0], prepare(recipes[0]))
    for _ in range(2):
        pid, ended = attempt(recipes, folder, moments.randint(1, 2), moments.randint(0, 10))
        if ended != -signal.SIGKILL:
            sys.exit(f"an attempt was not killed, but ended with {ended}")
        print("killed", pid, flush=True)
    if attempt(recipes, folder)[1]:
        sys.exit("the last attempt failed")


if __name__ == "__main__":
    main()
