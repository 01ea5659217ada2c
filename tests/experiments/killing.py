"""Train in child processes that are killed at random moments; run by test_killed.py.

The parent imports what is heavy and prepares the data, and each attempt is a fork of it.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.tasks import task_of


def traces(folder):
    """When what a run writes was last replaced."""
    names = ("recipe.json", "checkpoint.pt", "trainer", "log.jsonl", "model", "report.html")
    paths = [Path(folder, name) for name in names]
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]


def attempt(recipe, folder):
    """A child that trains; its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            train(recipe, folder, device="cpu", save_every=0.0, bootstrap=0)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def finish(pid):
    if os.waitpid(pid, 0)[1]:
        sys.exit("an attempt failed")


def kill_after(pid, folder, changes, delay):
    """Kill the child this many changes and seconds after its start; true if it was done before."""
    before = traces(folder)
    while changes > 0:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        now = traces(folder)
        changes -= now != before
        before = now
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    settings, straight, killed, kills = json.loads(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
    recipe = Recipe.from_dict(settings)
    task = task_of(recipe.task)
    task.build_model(recipe, task.prepare(recipe))
    if recipe.engine == "trainer":
        import calibrant.experiments.trainer_engine  # noqa: F401
    finish(attempt(recipe, straight))
    moments = random.Random(0)
    for _ in range(kills):
        changes, delay = moments.randint(1, 7), moments.uniform(0, 0.03)
        if kill_after(attempt(recipe, killed), killed, changes, delay):
            break
    finish(attempt(recipe, killed))


main()
