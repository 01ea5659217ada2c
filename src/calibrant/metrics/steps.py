"""Confidences sorted, with equal ones made one step: what every order-free metric starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.confidences import Confidences, confidences
from calibrant.predictions import Predictions

__all__ = ["StepSource", "Steps", "resampled_steps", "steps"]


@dataclass(frozen=True, eq=False)
class Steps:
    """The distinct confidences, ascending, with the examples and the right ones at each.

    No threshold parts examples of equal confidence, so metrics computed from steps cannot depend
    on the order of the examples. A bootstrap replicate is the same table with other counts.
    """

    confidence: np.ndarray
    count: np.ndarray
    correct: np.ndarray

    @property
    def n(self) -> int:
        """The number of examples."""
        return int(self.count.sum())


StepSource: TypeAlias = Predictions | Confidences | Steps


def steps(source: StepSource) -> Steps:
    """The steps of ``source``; steps are returned as they are.

    >>> s = steps(Confidences(np.array([0.9, 0.6, 0.9]), np.array([True, False, False])))
    >>> s.confidence, s.count, s.correct
    (array([0.6, 0.9]), array([1, 2]), array([0, 1]))
    """
    if isinstance(source, Steps):
        return source
    state = confidences(source)
    order, starts = _order_and_starts(state)
    return Steps(
        state.confidence[order][starts],
        np.diff(starts, append=len(state)),
        _add_up(state.correct[order].astype(np.int64), starts),
    )


def resampled_steps(state: Confidences, weights: np.ndarray) -> Iterator[Steps]:
    """One table of steps per row of the (R, G) ``weights`` of the blocks, after a single sort."""
    if state.block is None:
        raise InputError("Resampling Confidences needs their blocks: confidences(…, block=…).")
    order, starts = _order_and_starts(state)
    confidence, correct = state.confidence[order][starts], state.correct[order]
    block = state.block[order]
    for row in weights:
        weight = row[block]
        count = _add_up(weight, starts)
        kept = count > 0
        right = _add_up(np.where(correct, weight, 0), starts)
        yield Steps(confidence[kept], count[kept], right[kept])


def _order_and_starts(state: Confidences) -> tuple[np.ndarray, np.ndarray]:
    """The order that sorts the confidences, and where in it each distinct one starts."""
    order = np.argsort(state.confidence)
    ordered = state.confidence[order]
    first = np.ones(len(state), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return order, np.flatnonzero(first)


def _add_up(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sums of the runs of ``values`` that begin at ``starts``."""
    if len(starts) == len(values):  # No ties: every run is one value.
        return values
    return np.add.reduceat(values, starts)
