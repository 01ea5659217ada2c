"""What a record may hold: numbers where the tables of a study have numbers."""

from __future__ import annotations

import math
from typing import Any

from calibrant.inputs import shortened
from calibrant.metrics.table import with_new_names

__all__ = ["checked_results", "checked_training"]

_WORDS = ("reduction", "calibrator")  # Results that are not numbers.
_COUNTED = ("steps", "seconds")
_TOO_MUCH = 2**63
_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # As calibrant.json_values writes them.


def checked_results(results: Any) -> dict[str, Any]:
    """Read back what :func:`~calibrant.json_values.json_values` wrote, or raise a ValueError.

    Metrics that older records have under another name get their name of today.

    >>> checked_results({"identity": {"test": {"ece": 0.1, "nll": None}}})
    {'identity': {'test': {'ece': 0.1, 'nll': nan}}}
    >>> checked_results({"identity": {"test": {"debiased_ece": 0.1}}})
    {'identity': {'test': {'debiased_rms_ece': 0.1}}}
    """
    if not isinstance(results, dict):
        raise ValueError("its results are not an object")
    for name, parts in results.items():
        if not isinstance(parts, dict):
            raise ValueError(f"its results of {shortened(name)} are not an object")
    return {name: _numbers(parts, name) for name, parts in results.items()}


def _numbers(content: Any, where: str) -> Any:
    if isinstance(content, dict):
        numbers = {name: _numbers(value, f"{where}, {name}") for name, value in content.items()}
        return with_new_names(numbers)
    if content is None:
        return math.nan
    if isinstance(content, str) and where.endswith(_WORDS):
        return content
    if isinstance(content, str) and content in _INFINITE:
        return _INFINITE[content]
    return content if isinstance(content, bool) else _number(content, where)


def _number(value: Any, where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{shortened(where)} is not a number: {shortened(repr(value))}")
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{shortened(where)} is too large: {shortened(str(value))}") from None
    return value


def checked_training(training: Any) -> dict[str, Any]:
    """Return what a record says of the training; raise ValueError if it is malformed."""
    if not isinstance(training, dict):
        raise ValueError("its training is not an object")
    for name in _COUNTED:
        count = training.get(name)
        if count is not None and not 0 <= _number(count, f"training, {name}") < _TOO_MUCH:
            raise ValueError(f"training, {name} is not a count: {shortened(str(count))}")
    notes = training.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("training, notes is not a list of texts")
    return training
