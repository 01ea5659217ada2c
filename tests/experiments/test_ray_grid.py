"""A grid on a local Ray of two workers, one of which is killed in the middle."""

import os
import subprocess
import sys
import time

import pytest

from calibrant.cli import main
from calibrant.errors import InputError, MissingExtraError
from calibrant.experiments import ray_grid
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.outcome import record_of
from calibrant.experiments.recipe_file import expand_grid, read_recipes
from calibrant.experiments.record import read_record, read_records
from calibrant.json_values import json_values

pytest.importorskip("transformers")
SETTINGS = {"model": "tiny", "epochs": 2, "batch": 8, "learning_rate": 5e-3, "dtype": "float32"}


def working(driver):
    """The processes of the driver's Ray that run a task now."""
    import psutil

    found = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        try:
            if process.cmdline()[:1] == ["ray::train_unit"]:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def wait_for(condition, driver):
    deadline = time.monotonic() + 300  # Ray starts slowly where others use the machine too.
    while not (found := condition()):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


@pytest.mark.xdist_group("ray")
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.usefixtures("one_thread")  # As the workers have.
def test_a_worker_is_killed_and_every_record_comes_once(corpus, tmp_path, capsys):
    pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("psutil")
    grid, runs = tmp_path / "grid.toml", tmp_path / "runs"
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in SETTINGS.items()]
    grid.write_text(
        f'[defaults]\ndata = "{corpus}"\n' + "\n".join(lines) + "\n"
        '[[grid]]\nmethod = ["head_noise", "focal"]\nseed = [0, 1, 2]\n'
    )
    arguments = ["bench", str(grid), "-o", str(runs), "--device", "cpu", "--ray", "local"]
    command = [sys.executable, "-m", "calibrant", *arguments, "--jobs", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        # In the middle: a record has come, and other tasks are at work.
        wait_for(lambda: list(runs.glob("[!.]*.json")), driver)
        wait_for(lambda: len(working(driver)) == 2, driver)
        wait_for(lambda: working(driver), driver)[0].kill()
        out, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    assert "the task will be retried" in out + err  # In the words of Ray.
    keys = sorted(recipe.key for recipe in read_recipes(grid))
    finished = [line.split()[1] for line in err.splitlines() if "/6 " in line]
    assert sorted(finished) == keys, err
    assert "6 recipes, 0 of them done" in err
    records = list(read_records(runs))
    assert sorted(record.recipe.key for record in records) == keys
    cell = [record.recipe for record in records if record.recipe.method == "focal"]
    numbers = {record.recipe.key: record.results for record in records}
    for outcome in filter(None, run_cell(cell[:1], None, "cpu")):
        expected = record_of(outcome, {}).results
        assert json_values(numbers[outcome.recipe.key]) == json_values(expected)
    assert main(arguments) == 0
    assert "6 recipes, 6 of them done" in capsys.readouterr().out


@pytest.fixture
def two_nodes():
    """A cluster on this machine, with two nodes that run tasks."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    quick["worker_niceness"] = 0  # Else workers starve while other tests run.
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.xdist_group("ray")  # One cluster at a time.
@pytest.mark.usefixtures("one_thread")
def test_a_node_is_killed_and_every_record_comes_once(corpus, tmp_path, two_nodes, monkeypatch):
    recipes = expand_grid({**SETTINGS, "data": str(corpus)}, [{"seed": [0, 1, 2, 3]}])
    submit, node_of = ray_grid._submit, {}

    def noted(ray, node, unit, *others):
        node_of.setdefault(unit[0][0].key, node["NodeID"])
        return submit(ray, node, unit, *others)

    monkeypatch.setattr(ray_grid, "_submit", noted)
    records = ray_grid.run_on_ray(recipes, tmp_path / "runs", "auto", device="cpu")
    written = [next(records)]
    # In the middle: the other task runs on the node that is lost.
    (working,) = [key for key in node_of if key != read_record(written[0]).recipe.key]
    nodes = two_nodes.list_all_nodes()
    lost = next(node for node in nodes if node.node_id == node_of[working])
    two_nodes.remove_node(lost, allow_graceful=False)
    written += records
    keys = [read_record(path).recipe.key for path in written]
    assert sorted(keys) == sorted(recipe.key for recipe in recipes)
    numbers = {record.recipe.key: record for record in read_records(tmp_path / "runs")}
    assert sorted(numbers) == sorted(keys)
    recipe = numbers[working].recipe
    (outcome,) = filter(None, run_cell([recipe], None, "cpu"))
    expected = record_of(outcome, {}).results
    # A process that loaded compiled kernels may differ in the last bit from one that did not.
    found, undisturbed = (
        dict(_leaves(json_values(results))) for results in (numbers[working].results, expected)
    )
    assert found.keys() == undisturbed.keys()
    for path, value in undisturbed.items():
        near = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        assert found[path] == near, path


def _leaves(value, path=()):
    """Yield each value of nested dictionaries, with its keys."""
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))


def test_a_task_is_one_seed_of_the_cells_that_are_stacked():
    recipes = expand_grid(SETTINGS, [{"method": ["focal", "mse"], "seed": [0, 1]}])
    alone = list(ray_grid._units(recipes, 1))
    assert [len(unit) for unit in alone] == [1, 1, 1, 1]
    together = list(ray_grid._units(recipes, 10))
    assert [[cell[0].seed for cell in unit] for unit in together] == [[0, 0], [1, 1]]
    assert sorted(r.key for unit in together for (r,) in unit) == sorted(r.key for r in recipes)


class _Nodes:
    """A cluster of three nodes: one lost, one that runs no tasks, one with two GPUs."""

    @staticmethod
    def nodes():
        return [
            {"NodeID": "lost", "Alive": False, "Resources": {"CPU": 8.0}},
            {"NodeID": "head", "Alive": True, "Resources": {}},
            {"NodeID": "first", "Alive": True, "Resources": {"CPU": 4.0}},
            {"NodeID": "second", "Alive": True, "Resources": {"CPU": 16.0, "GPU": 2.0}},
        ]


def test_the_node_with_the_fewest_tasks_gets_the_next():
    running = {}
    for number in range(4):
        node = ray_grid._node_with_room(_Nodes, running, jobs=2)
        running[number] = (node["NodeID"], [])
    assert sorted(node for node, _ in running.values()) == ["first", "first", "second", "second"]
    assert ray_grid._node_with_room(_Nodes, running, jobs=2) is None


def test_bad_input(corpus, tmp_path, monkeypatch):
    recipes = expand_grid({**SETTINGS, "data": str(corpus)}, [{}])
    with pytest.raises(InputError, match="jobs must be a whole number of at least 1"):
        list(ray_grid.run_on_ray(recipes, tmp_path, "local", jobs=0))
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def nobody(**_):
        raise ConnectionError("Could not find any running Ray instance.\nPlease start one.")

    monkeypatch.setattr(ray, "init", nobody)
    for address in ("localhost:9", "auto"):
        with pytest.raises(InputError, match=f"No Ray cluster at '{address}'.*ray start --head"):
            list(ray_grid.run_on_ray(recipes, tmp_path, address))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrant\[ray\]'"):
        list(ray_grid.run_on_ray(recipes, tmp_path, "local"))
