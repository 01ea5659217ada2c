"""Sorted confidences, with ties as one step: the input of every order-free metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.confidences import Confidences, confidences
from calibrant.metrics.sketch import ROUNDING, ConfidenceSketch
from calibrant.metrics.state import times
from calibrant.predictions import Predictions

__all__ = ["ConfidenceSteps", "StepSource", "confidence_steps", "resampled_steps"]


@dataclass(frozen=True, eq=False)
class ConfidenceSteps:
    """The distinct confidences, ascending, with the examples and the right ones at each.

    With sample weights both are sums of weights, in float64, and otherwise whole numbers.

    No threshold separates examples of equal confidence, so metrics of steps do not depend
    on the order of the examples. A bootstrap replicate is the same table with other counts.

    >>> right = np.array([True, False, True])
    >>> steps = confidence_steps(Confidences(np.array([0.6, 0.9, 0.9]), right))
    >>> for confidence, count, correct in zip(steps.confidence, steps.count, steps.correct):
    ...     print(f"{correct} of {count} right at {confidence}")
    1 of 1 right at 0.6
    1 of 2 right at 0.9
    >>> steps.n, steps.weighted
    (3, False)
    """

    confidence: np.ndarray
    count: np.ndarray
    correct: np.ndarray

    @property
    def n(self) -> Any:
        """The number of examples, or the sum of their weights."""
        return self.count.sum().item()

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights."""
        return self.count.dtype.kind == "f"

    @property
    def wide(self) -> type:
        """The type in which sums of counts are exact, or as exact as weights are."""
        return np.float64 if self.weighted else np.int64


_CHUNK = 1 << 18  # Values compared at a time.

StepSource: TypeAlias = Predictions | Claims | Confidences | ConfidenceSketch | ConfidenceSteps


def confidence_steps(source: StepSource) -> ConfidenceSteps:
    """Return the steps of ``source``; steps are returned unchanged.

    >>> s = confidence_steps(Confidences(np.array([0.9, 0.6, 0.9]), np.array([True, False, False])))
    >>> s.confidence.tolist(), s.count.tolist(), s.correct.tolist()
    ([0.6, 0.9], [1, 2], [0, 1])
    """
    if isinstance(source, ConfidenceSteps):
        return source
    if isinstance(source, ConfidenceSketch):
        return ConfidenceSteps(*source.steps())
    state = confidences(source)
    if state.weights is not None:
        return next(
            resampled_steps(replace(state, block=np.zeros(len(state), int)), np.ones((1, 1)))
        )
    confidence, correct = _sorted(state)
    starts = _starts(confidence)
    # Half the memory of int64, which counts below 2³¹ do not need.
    dtype = np.int32 if len(confidence) < 2**31 else np.int64
    count = np.empty(len(starts), dtype)
    if len(starts):
        np.subtract(starts[1:], starts[:-1], out=count[:-1], casting="same_kind")
        count[-1] = len(confidence) - starts[-1]
    right = np.add.reduceat(correct, starts, dtype=dtype) if len(starts) else count
    return ConfidenceSteps(confidence[starts], count, right)


def resampled_steps(state: Confidences, weights: np.ndarray) -> Iterator[ConfidenceSteps]:
    """Return one table of steps per row of the (R, G) block ``weights``, after a single sort."""
    if state.block is None:
        raise InputError("Resampling Confidences needs their blocks: confidences(…, block=…).")
    order = np.argsort(state.confidence)
    starts = _starts(state.confidence[order])
    confidence, correct = state.confidence[order][starts], state.correct[order]
    block, own = state.block[order], None if state.weights is None else state.weights[order]
    for row in weights:
        weight = times(row[block], own)
        count = _add_up(weight, starts)
        kept = count > 0
        right = _add_up(np.where(correct, weight, 0), starts)
        yield ConfidenceSteps(confidence[kept], count[kept], right[kept])


def _sorted(state: Confidences) -> tuple[np.ndarray, np.ndarray]:
    """Return confidence and correctness of all examples, sorted by confidence.

    Bits of floats from 0 to below 2 are in the order of the floats and leave the highest two free.
    With the correctness as lowest bit one sort of integers does it, many times faster than an order
    by which both are then fetched.
    """
    given = state.confidence + 0.0  # No −0, which has the highest bit.
    if not len(given) or not 0 <= given.min() <= given.max() < 2:
        order = np.argsort(state.confidence)
        return state.confidence[order], state.correct[order]
    keys = given.view(np.uint64)
    np.left_shift(keys, 1, out=keys)
    keys |= state.correct
    keys.sort()
    correct = (keys & np.uint64(1)).astype(bool)
    np.right_shift(keys, 1, out=keys)
    return keys.view(np.float64), correct


def _starts(ordered: np.ndarray) -> np.ndarray:
    """Return where each distinct value of a sorted array starts.

    Values that differ by no more than rounding are one: the softmax of equal logits in another
    order of classes, or by another kernel, may differ in its last digits.
    """
    first = np.ones(len(ordered), bool)
    for start in range(1, len(ordered), _CHUNK):
        part = slice(start, start + _CHUNK)
        before = ordered[start - 1 : start - 1 + _CHUNK][: len(ordered[part])]
        np.greater(ordered[part], before + ROUNDING * np.abs(before), out=first[part])
    starts = np.flatnonzero(first)
    for begin, end in _chains(ordered, first, starts):
        first[[begin + place for place in _cuts(ordered[begin:end])]] = True
    return np.flatnonzero(first)


def _chains(
    ordered: np.ndarray, first: np.ndarray, starts: np.ndarray
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of runs whose neighbours differ by rounding, but not their ends.

    Near 1 many confidences lie so close that all of them would become one tie.
    """
    begins = np.flatnonzero(first[:-2] & ~first[1:-1] & ~first[2:])  # Of at least three values.
    following = np.searchsorted(starts, begins, "right")
    last = following == len(starts)
    ends = np.where(last, len(ordered), starts[np.where(last, 0, following)])
    apart = ordered[ends - 1] - ordered[begins] > ROUNDING * np.abs(ordered[ends - 1])
    yield from zip(begins[apart].tolist(), ends[apart].tolist(), strict=True)


def _cuts(run: np.ndarray) -> Iterator[int]:
    """Yield where steps begin, each as wide as rounding allows, from the highest value down."""
    end = len(run)
    while end:
        top = run[end - 1]
        yield (end := int(np.searchsorted(run[:end], top - ROUNDING * abs(top))))


def _add_up(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sum the runs of ``values`` that begin at ``starts``."""
    if len(starts) == len(values):  # No ties: every run is one value.
        return values
    return np.add.reduceat(values, starts)
