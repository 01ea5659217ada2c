"""The tasks that can be trained: one table. Each task is a folder here, with one class.

Everything else (recipes, engines, grids, run folders, the command line) asks :func:`task_of`, and
knows no task by name.

>>> task_of("text").summary
'text classification: one class for each text'
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import unknown_name
from calibrant.old_names import add_old_modules

if TYPE_CHECKING:
    from calibrant.tasks.data import Data
    from calibrant.tasks.task import Task

__all__ = ["DEFAULT_TASK", "TASKS", "all_tasks", "open_task", "task_of"]

# Name → where its class is. A module is imported when its task is first needed, and needs NumPy
# alone until the task reads data or builds a model.
TASKS: dict[str, str] = {
    "ner": "calibrant.tasks.ner.task:Ner",
    "text": "calibrant.tasks.text.task:Text",
    "image": "calibrant.tasks.image.task:Image",
    "segmentation": "calibrant.tasks.segmentation.task:Segmentation",
}
DEFAULT_TASK = "ner"  # For a recipe without a task.
add_old_modules(__name__)


def task_of(name: str) -> Task:
    """Return the task of a name.

    >>> task_of("txt")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Unknown task 'txt'. Did you mean 'text'?
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return _made(TASKS[name])


def all_tasks() -> dict[str, Task]:
    """Return every task by its name."""
    return {name: task_of(name) for name in TASKS}


@functools.cache
def _made(place: str) -> Task:
    module, _, name = place.partition(":")
    made: Task = getattr(importlib.import_module(module), name)()
    return made


def open_task(
    kind: str,
    data: str | None = None,
    *,
    directory: str | Path | None = None,
    seed: int = 0,
    tiny: bool = False,
    **options: Any,
) -> Data:
    """Open data for a task, to train on by other means; ``tiny`` opens a little embedded data.

    >>> data = open_task("ner", tiny=True)
    >>> data.labels[:3], len(data.load("test"))
    (('O', 'B-LOC', 'I-LOC'), 20)
    """
    task = task_of(kind)
    if tiny:
        return task.tiny(seed, **options)
    return task.open(data or task.embedded, directory, seed, **options)
