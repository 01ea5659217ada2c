"""kill -9 during ``calibrant bench``: the same command makes every record exactly once."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from calibrant.cli import main
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.outcome import record_of
from calibrant.experiments.recipe_file import read_recipes
from calibrant.experiments.record import read_records
from calibrant.json_values import json_values

pytest.importorskip("transformers")

SCRIPT = Path(__file__).with_name("bench_killing.py")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@pytest.fixture(scope="module")
def killed(corpus, tmp_path_factory):
    """The grid, the folder of its records, and what the attempts printed."""
    folder = tmp_path_factory.mktemp("bench")
    grid = folder / "grid.toml"
    grid.write_text(
        f'[defaults]\ndata = "{corpus}"\nmodel = "tiny"\nepochs = 2\ndtype = "float32"\nbatch = 8\n'
        "learning_rate = 5e-3\n"
        '[[grid]]\nmethod = ["head_noise", "focal"]\nseed = [0, 1, 2]\n'
    )
    command = [sys.executable, str(SCRIPT), str(grid), str(folder / "runs")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return grid, folder / "runs", done.stdout


def test_every_record_is_there_and_none_was_made_twice(killed, capsys):
    grid, runs, printed = killed
    keys = [recipe.key for recipe in read_recipes(grid)]
    made = [line.split()[1] for line in printed.splitlines() if line.startswith("record")]
    assert printed.count("killed") == 2
    assert len(made) == len(set(made))
    # A record may have been written, and its writer killed before it could say so.
    assert {f"{key}.json" for key in keys} >= set(made)
    assert sorted(record.recipe.key for record in read_records(runs)) == sorted(keys)
    assert main(["bench", str(grid), "-o", str(runs), "--device", "cpu"]) == 0
    assert "6 recipes, 6 of them done" in capsys.readouterr().out


@pytest.mark.usefixtures("one_thread")  # As the killed processes have.
def test_the_numbers_are_those_of_a_grid_that_nobody_killed(killed):
    grid, runs, _ = killed
    found = {record.recipe.key: record.results for record in read_records(runs)}
    recipes = read_recipes(grid)
    for method in ("head_noise", "focal"):
        cell = [recipe for recipe in recipes if recipe.method == method]
        for outcome in filter(None, run_cell(cell, None, "cpu")):
            expected = json_values(record_of(outcome, {}).results)
            # This process may have compiled kernels by now, which add up in another order.
            made = flat(json_values(found[outcome.recipe.key]))
            assert made.keys() == flat(expected).keys()
            for name, value in flat(expected).items():
                near = value if value is None or isinstance(value, str) else about(value)
                assert made[name] == near, name


def about(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def flat(results, name=""):
    """The numbers of nested dictionaries, under their joined names."""
    if not isinstance(results, dict):
        return {name: results}
    parts = [flat(value, f"{name}/{key}") for key, value in results.items()]
    return {key: value for part in parts for key, value in part.items()}


def test_a_killed_grid_leaves_no_process_behind(killed):
    psutil = pytest.importorskip("psutil")
    mine = [int(line.split()[1]) for line in killed[2].splitlines() if line.startswith("killed")]
    assert len(mine) == 2
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [p for p in psutil.process_iter() if _is_worker_of(p, mine)]
        if not left:
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {left}")


def _is_worker_of(process, parents):
    """A spawned worker names its parent on its command line."""
    try:
        line = " ".join(process.cmdline())
    except Exception:  # It ended meanwhile.
        return False
    return "spawn_main" in line and any(f"parent_pid={pid}" in line for pid in parents)
