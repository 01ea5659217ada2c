"""A grid on a Ray cluster: tasks on all nodes, records written here as they arrive.

One task trains one seed of the cells that are trained together (a single recipe without stacks)
and returns their records. If a worker is killed, its task runs again, if necessary on another node.
The process that started the grid writes each record once.
"""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.distributed.ray_cluster import (
    HANDED_ON,
    connected,
    enter_place,
    nodes,
    resource,
    share_of_node,
    task_error,
)
from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.grid import (
    cells_of,
    check_found,
    check_grid,
    check_numbers,
    take_turns,
)
from calibrant.experiments.outcome import record_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, circumstances, recorded
from calibrant.experiments.run import default_device
from calibrant.experiments.stacked import stacks
from calibrant.extras import require
from calibrant.outputs import make_folder

__all__ = ["run_on_ray", "train_unit"]

Unit = list[list[Recipe]]  # Cells of one recipe each; they share the seed alone.
_RETRIES = 3  # Restarts of a task whose worker is killed.
_PATIENCE = 5.0  # Seconds between searches for new nodes.
_PURPOSE = "Running a grid on a cluster"


def run_on_ray(
    recipes: Sequence[Recipe],
    folder: str | Path,
    address: str,
    *,
    jobs: int = 1,
    directory: str | None = None,
    device: str | None = None,
    stack: int | None = None,
    trust_remote_code: bool = False,
) -> Iterator[Path]:
    """Run a grid like :func:`~calibrant.experiments.grid.run_grid`, ``jobs`` tasks on each node.

    ``address`` is ``"auto"`` for the cluster that this machine belongs to, ``"host:port"`` of
    another, or ``"local"`` for one that lasts as long as the grid. All nodes need calibrant, and
    corpora and encoders at the same place. A node with GPUs trains on them, ``jobs`` sharing all.
    A recipe whose ``dtype`` is auto takes that of this machine, or of ``device``.
    """
    require("ray", "ray", _PURPOSE)
    check_numbers(jobs=jobs, stack=stack)
    folder = make_folder(folder)
    done = recorded(folder)
    here = device or default_device()  # Nodes may differ; a record has one type of numbers.
    left = [recipe for recipe in (r.on(here) for r in recipes) if recipe.key not in done]
    check_grid(left)
    if address == "local":  # Elsewhere, data may be on the nodes alone.
        check_found(left, directory)
    with connected(address, cores=jobs, purpose=_PURPOSE) as ray:
        gpus = device != "cpu" and any(resource(node, "GPU") for node in nodes(ray))
        units = _units(left, stack or (10 if gpus else 1))
        for records in _results(ray, units, jobs, directory, device, trust_remote_code):
            yield from (record.write(folder) for record in records)


def train_unit(
    unit: Unit,
    directory: str | None,
    device: str,
    place: str,
    settings: Mapping[str, str],
    trust_remote_code: bool = False,
) -> list[Record]:
    """Train and measure on a worker; return the records.

    If the worker has a folder ``place``, it works there, so that relative names mean the same.
    """
    enter_place(place, settings)
    turns = take_turns([unit], 1, directory, device, trust_remote_code)
    outcomes = [outcome for outcome in turns if outcome is not None]
    about = {**circumstances(), "host": socket.gethostname()}
    return [record_of(outcome, about) for outcome in outcomes]


def _units(recipes: Sequence[Recipe], size: int) -> Iterator[Unit]:
    for cells in stacks(list(cells_of(recipes)), size):
        for same_seed in zip(*cells, strict=True):
            yield [[recipe] for recipe in same_seed]


def _results(
    ray: Any,
    units: Iterator[Unit],
    jobs: int,
    directory: str | None,
    device: str | None,
    trust: bool,
) -> Iterator[list[Record]]:
    """Run at most ``jobs`` tasks on each node until none is left; yield results as they arrive."""
    waiting, running = deque(units), dict[Any, tuple[str, Unit]]()
    while waiting or running:
        while waiting and (node := _node_with_room(ray, running, jobs)) is not None:
            task = _submit(ray, node, waiting[0], jobs, directory, device, trust)
            running[task] = (node["NodeID"], waiting.popleft())
        if not running:
            raise InputError("The Ray cluster has no node with a CPU to run on.")
        done, _ = ray.wait(list(running), timeout=_PATIENCE)  # Then look for new nodes.
        for task in done:
            yield _result(ray, task, running.pop(task)[1])


def _submit(
    ray: Any,
    node: Mapping[str, Any],
    unit: Unit,
    jobs: int,
    directory: str | None,
    device: str | None,
    trust: bool,
) -> Any:
    gpus = 0.0 if device == "cpu" else resource(node, "GPU")
    # Soft: the tasks of a lost node move to the others.
    options = {"max_retries": _RETRIES, **share_of_node(node, jobs, gpus, soft=True)}
    where = device or ("cuda" if gpus else "cpu")
    settings = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
    task = ray.remote(train_unit).options(**options)
    return task.remote(unit, directory, where, str(Path.cwd()), settings, trust)


def _result(ray: Any, task: Any, unit: Unit) -> list[Record]:
    try:
        records: list[Record] = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise task_error(error) from None
    except ray.exceptions.RayError as error:
        raise CalibrantError(
            f"The worker of {unit[0][0].key} was lost {_RETRIES + 1} times "
            f"({type(error).__name__}), perhaps because memory ran out: the same command continues "
            "from here; --jobs 1 needs the least."
        ) from None
    return records


def _node_with_room(
    ray: Any, running: Mapping[Any, tuple[str, Unit]], jobs: int
) -> Mapping[str, Any] | None:
    """Return the node with the fewest tasks, if it has fewer than ``jobs``."""
    tasks = Counter(node for node, _ in running.values())
    room = [node for node in nodes(ray) if tasks[node["NodeID"]] < jobs]
    return min(room, key=lambda node: tasks[node["NodeID"]], default=None)
