"""What every task has: data by split, a label set, collation and a model to train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from calibrant.errors import unknown_name
from calibrant.tasks.image.image_task import ImageTask
from calibrant.tasks.ner.ner_task import NerTask
from calibrant.tasks.segmentation.segmentation_task import SegmentationTask
from calibrant.tasks.text.corpus import TextTask

__all__ = ["TASKS", "Examples", "Task", "open_task"]


class Examples(Protocol):
    """What a data loader takes: so many examples, each by its number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> dict[str, Any]: ...


@runtime_checkable
class Task(Protocol):
    """A data set and a model for it. It knows nothing of calibration methods.

    ``notes`` says what was done to the data: a split carved, texts shortened.
    """

    name: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def load(self, split: str) -> Examples:
        """The examples of a split, encoded, each with its ``labels``."""

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Some examples as a batch of tensors, named as the model takes them."""

    def build_model(self, seed: int = 0) -> Any:
        """A new model with a head for the label set."""


TASKS: dict[str, type[NerTask] | type[TextTask] | type[ImageTask] | type[SegmentationTask]] = {
    "ner": NerTask,
    "text": TextTask,
    "image": ImageTask,
    "segmentation": SegmentationTask,
}


def open_task(
    kind: str,
    data: str | None = None,
    *,
    directory: str | Path | None = None,
    seed: int = 0,
    tiny: bool = False,
    **options: Any,
) -> Task:
    """The task of a kind on some data, or with ``tiny`` on a little embedded data, for tests.

    >>> task = open_task("ner", tiny=True)
    >>> task.labels[:3], len(task.load("test"))
    (('O', 'B-LOC', 'I-LOC'), 20)
    """
    if kind not in TASKS:
        raise unknown_name("task", kind, TASKS)
    task = TASKS[kind]
    if tiny:
        return task.tiny(seed, **options)
    return task.open(data or task.embedded, directory, seed, **options)
