"""The tasks of Label Studio's JSON export: a text, and the regions that its annotators marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.errors import InputError

__all__ = ["is_task", "marked_regions", "task_data"]


def is_task(record: Any) -> bool:
    """Return whether a record is a task of Label Studio with its annotations."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("data"), dict)
        and isinstance(record.get("annotations"), list)
    )


def task_data(task: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the data of a task, which has its text."""
    data: dict[str, Any] = task["data"]
    if not isinstance(data.get("text"), str):
        raise InputError(f"{where}: the data of this task of Label Studio have no 'text'.")
    return data


def marked_regions(task: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the regions with labels of the valid annotation, as Label Studio writes them.

    A cancelled annotation (a skipped task) is none. Among several, those marked as the ground truth
    count; they must agree, because nobody else can say which one is right.
    """
    made = [each if isinstance(each, dict) else {} for each in task["annotations"]]
    kept = [each for each in made if not each.get("was_cancelled")]
    kept = [each for each in kept if each.get("ground_truth")] or kept
    found = [_regions(each, where) for each in kept]
    if not found:
        raise InputError(f"{where}: this task has no annotation: export only annotated tasks.")
    if any(_marks(each) != _marks(found[0]) for each in found):
        raise InputError(
            f"{where}: {len(found)} annotations of this task differ: mark one of them as the "
            "ground truth in Label Studio."
        )
    return found[0]


def _regions(annotation: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        raise InputError(f"{where}: an annotation of Label Studio needs a list 'result'.")
    return [each for each in results if each.get("type") == "labels"]


def _marks(regions: list[dict[str, Any]]) -> list[str]:
    """Return what the regions mark, without their names and origins."""
    return sorted(repr(region.get("value")) for region in regions)
