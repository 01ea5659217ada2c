"""The classes that a stream shows: those of predictions, or the predicted labels of claims."""

from __future__ import annotations

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.blocks import hash_values
from calibrant.metrics.confidences import top_label
from calibrant.predictions import Predictions
from calibrant.watching.record import TESTS

__all__ = ["check_alike", "drift_classes", "possible_tests", "shown_classes", "shown_names"]

_PLACES = 1 << 12  # Fixed in advance. Names that share one are only harder to tell apart.


def shown_names(examples: Predictions | Claims) -> tuple[str, ...]:
    """Return the names of the classes that can be predicted; of claims, those that are."""
    if isinstance(examples, Predictions):
        return examples.names
    if examples.about is None:
        return ()
    return tuple(examples.names[k] for k in np.unique(examples.about))


def shown_classes(examples: Predictions | Claims, names: tuple[str, ...]) -> tuple[np.ndarray, int]:
    """Return the place of each predicted class in ``names``, and how many places there are.

    Claims may show a label that has no place: all of these share one more.

    >>> claims = Claims.from_top_label(["b", "c", "a"], [0.9, 0.8, 0.7], correct=[True] * 3)
    >>> shown_classes(claims, ("a", "b"))
    (array([1, 2, 0]), 3)
    """
    if isinstance(examples, Predictions):
        return top_label(examples)[1], examples.classes
    places, others = {name: k for k, name in enumerate(names)}, len(names)
    if examples.about is None:
        return np.full(len(examples), others), others + 1
    table = np.array([places.get(name, others) for name in examples.names], np.int64)
    return table[examples.about], others + 1


def drift_classes(examples: Predictions | Claims) -> tuple[np.ndarray, int]:
    """Return the place of each predicted class in a test of drift, and how many places there are.

    The name of a label gives its place. The labels of the reference must not: a rare label that it
    happens to lack would then always count as a change.

    >>> claims = Claims.from_top_label(["b", "c", "b"], [0.9, 0.8, 0.7], correct=[True] * 3)
    >>> places, most = drift_classes(claims)
    >>> bool(places[0] == places[2]), bool(places[0] == places[1]), most
    (True, False, 4096)
    """
    if isinstance(examples, Predictions):
        return top_label(examples)[1], examples.classes
    if examples.about is None:
        return np.zeros(len(examples), np.int64), 1
    table = hash_values(np.array(examples.names)) % np.uint64(_PLACES)
    return table.astype(np.int64)[examples.about], _PLACES


def possible_tests(reference: Predictions | Claims | None) -> tuple[str, ...]:
    """Return what is tested: labels, and what a reference can be compared with."""
    if reference is None:
        return ("honesty",)
    return tuple(test for test in TESTS if test != "classes" or _has_labels(reference))


def check_alike(reference: Predictions | Claims, stream: Predictions | Claims) -> None:
    """Check that both have the scores of all classes, or both one confidence per row."""
    if isinstance(reference, Claims) != isinstance(stream, Claims):
        words = ("the scores of all classes", "one confidence per row")
        first, second = words if isinstance(stream, Claims) else words[::-1]
        raise InputError(
            f"The reference has {first}, the stream {second}; both must be of one kind."
        )
    if _has_labels(reference) and not _has_labels(stream):
        raise InputError(
            "The reference has predicted labels, the stream has none; name their column in the "
            "stream (--predicted-column), or leave it out of the reference."
        )


def _has_labels(examples: Predictions | Claims) -> bool:
    return isinstance(examples, Predictions) or examples.about is not None
