"""From predictions to a state: one pass over the scores in chunks that stay in cache."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import Array, to_numpy
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.claim_state import claim_state
from calibrant.metrics.kernel_dispatch import (
    in_host_memory,
    kernel_edges,
    kernels_for,
    plain,
    rows_per_task,
    spread,
)
from calibrant.metrics.state import CalibrationState, times
from calibrant.predictions import Kind, Predictions

__all__ = ["accumulate", "accumulate_by", "check_counted", "edge_type"]

_CHUNK = 1 << 16  # Scores per chunk: half a megabyte in float64, small enough for L2.
_SPARSE = 4  # From this many cells per value on, values are added one by one.


def accumulate(
    predictions: Predictions | Claims,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    classwise: bool = True,
    block: np.ndarray | None = None,
    blocks: int = 0,
    into: CalibrationState | None = None,
) -> CalibrationState:
    """Return the state of ``predictions``, or of claims (:mod:`calibrant.metrics.claim_state`).

    With ``block``, an array that puts each example into one of ``blocks`` blocks, the sums have a
    leading axis of that length: one state per block, for :mod:`calibrant.metrics.bootstrap`.
    ``into``, a state with those blocks, is added to in place: for a long stream of many classes
    that saves time and memory.

    Tensors stay on their device. Large inputs in host memory use the kernels of the
    extra ``fast`` if it is installed (:mod:`calibrant.metrics.kernel_dispatch`), with
    equal results. Predictions with sample weights are summed by NumPy, or on their device.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> accumulate(p, bins=5).top_count
    array([0, 0, 0, 1, 1])
    """
    check_kind("accumulate", predictions, Predictions, Claims)
    bins = bins if isinstance(bins, Bins) else Bins(bins, closed)
    if block is not None:
        count = blocks if into is None else len(into.n)
        block = _checked(block, len(predictions), count)
    if isinstance(predictions, Claims):
        where: dict[str, Any] = {"block": block, "blocks": blocks, "into": into}
        return claim_state(predictions, bins, classwise=classwise, **where)
    module = kernels_for(predictions)
    if into is not None:
        return _added_in_place(module, predictions, into, block)
    return accumulate_by(module, predictions, bins, classwise, block, blocks)


def accumulate_by(
    module: ModuleType | None,
    predictions: Predictions,
    bins: Bins,
    classwise: bool,
    block: np.ndarray | None = None,
    blocks: int = 0,
) -> CalibrationState:
    """Accumulate with these kernels; without any, with NumPy or on the tensors' device."""
    lead = 1 if block is None else blocks
    options: dict[str, Any] = {"classwise": classwise, "weighted": predictions.weighted}
    state = CalibrationState.empty(predictions.classes, bins, blocks=(lead,), **options)
    state = _added_in_place(module, predictions, state, block)
    return state.total() if block is None else state


def _added_in_place(
    module: ModuleType | None,
    predictions: Predictions,
    state: CalibrationState,
    block: np.ndarray | None,
) -> CalibrationState:
    """Add the predictions in place to ``state``, whose leading axis is that of blocks."""
    if predictions.weighted != state.weighted:
        raise InputError("accumulate expects sample weights in all parts, or in none.")
    if not in_host_memory(predictions.scores):
        from calibrant.metrics.tensors import add_tensors

        add_tensors(state, predictions, block)
    elif module is not None and not predictions.weighted:
        _add_compiled(state, predictions, block, module)
    else:
        _add_numpy(state, predictions, block)
    n, correct = state.top_count.sum(axis=-1), state.top_correct.sum(axis=-1)
    if not state.weighted:
        check_counted(int(n.sum() - state.n.sum()), len(predictions))
    return replace(state, ignored=state.ignored + predictions.ignored, n=n, correct=correct)


def check_counted(counted: int, rows: int) -> None:
    """Check that every row is in one bin: a chunk that misses or repeats rows raises an error."""
    if counted != rows:
        raise RuntimeError(
            f"calibrant counted {counted} of {rows} rows, so its numbers would be wrong. This is a "
            "defect of calibrant: please report it with the shape and type of the scores."
        )


def _checked(block: np.ndarray, rows: int, blocks: int) -> np.ndarray:
    block = np.ascontiguousarray(to_numpy(block), np.int64)
    if block.shape != (rows,) or (rows and not 0 <= block.min() <= block.max() < blocks):
        raise InputError(
            f"accumulate expects a block number in 0..{blocks - 1} for each of {rows} examples, "
            f"got shape {block.shape}{f', {block.min()}..{block.max()}' if block.size else ''}."
        )
    return block


def _add_compiled(
    state: CalibrationState, p: Predictions, block: np.ndarray | None, kernels: ModuleType
) -> None:
    """Add all rows by the compiled kernel, on all processors."""
    cut = kernel_edges(state.bins, edge_type(p.kind, p.scores))
    where = np.empty(0, np.int64) if block is None else block

    cells = sum(getattr(state, name).size for name in state.SUMS)
    alone = len(p) <= rows_per_task(len(p), p.classes, cells)

    def add(start: int, stop: int) -> CalibrationState:
        part, rows = state, slice(start, stop)
        if not alone:  # Each task has its own tables, which are summed in order.
            part = CalibrationState.empty(
                state.classes, state.bins, classwise=state.classwise, blocks=state.n.shape
            )
        *tables, low = _tables(part)
        kernels.add_rows(
            plain(p.scores[rows]),
            plain(p.labels[rows], np.int64),
            plain(where[rows], np.int64),
            cut,
            p.kind == "logits",
            *tables,
            low,
        )
        if state.classwise:
            part.class_count[..., 0] += low[0]
            part.class_confidence[..., 0] += low[1]
        return part

    for part in spread(add, len(p), p.classes, cells):
        for name in () if alone else state.SUMS:
            getattr(state, name)[...] += getattr(part, name)


def _tables(state: CalibrationState) -> tuple[tuple[np.ndarray, ...], ...]:
    """Return the sums of a state in the kernel's groups, and room for those of bin 0."""
    shape = (*state.n.shape, state.classes if state.classwise else 0)
    top = ("top_count", "top_confidence", "top_correct", "label_count")
    predicted = ("predicted_count", "predicted_confidence", "predicted_correct")
    return (
        (state.nll, state.brier),
        tuple(getattr(state, name).reshape(-1) for name in top + predicted),
        (state.class_count, state.class_confidence, state.class_correct),
        (np.zeros(shape, np.int64), np.zeros(shape)),
    )


def edge_type(kind: Kind, scores: Array) -> np.dtype:
    """Return the type for comparing confidences with edges: that of the given probabilities."""
    return np.dtype(np.float64) if kind == "logits" else to_numpy(scores[:0]).dtype


def _add_numpy(state: CalibrationState, p: Predictions, block: np.ndarray | None) -> None:
    """Add all rows by NumPy, chunk after chunk."""
    rows = max(1, _CHUNK // p.classes)
    for start in range(0, len(p), rows):
        part = slice(start, start + rows)
        scores, labels = to_numpy(p.scores[part]), to_numpy(p.labels[part])
        where = np.zeros(len(labels), np.int64) if block is None else block[part]
        weights = None if p.weights is None else p.weights[part]
        _add_rows(state, scores, labels, p.kind == "logits", where, weights)


def _add_rows(
    state: CalibrationState,
    scores: np.ndarray,
    labels: np.ndarray,
    logits: bool,
    block: np.ndarray,
    weights: np.ndarray | None,
) -> None:
    """Add the rows of one chunk to the sums of their blocks, in place."""
    rows, w = np.arange(len(labels)), weights
    probabilities, nll = _probabilities_and_nll(scores, labels, logits)
    predicted = scores.argmax(axis=1)
    confidence = probabilities[rows, predicted]
    correct = predicted == labels
    wide = probabilities.astype(np.float64, copy=False)
    # Σ_k (p_k − 1[y = k])² = Σ_k p_k² − 2 p_y + 1
    brier = np.einsum("nk,nk->n", wide, wide) - 2 * wide[rows, labels] + 1

    _add(state.nll, block, times(nll, w))
    _add(state.brier, block, times(brier, w))
    sums = {"count": w, "confidence": times(confidence, w), "correct": times(correct, w)}
    of_bin = block * state.bins.count + state.bins.index(confidence)
    of_class = block * state.classes
    _add(state.label_count, of_class + labels, w)
    of_class += predicted
    for name, values in sums.items():
        _add(getattr(state, f"top_{name}"), of_bin, values)
        _add(getattr(state, f"predicted_{name}"), of_class, values)
    if state.classwise:
        row = block[:, None] * state.classes + np.arange(state.classes)
        cells = row * state.bins.count + state.bins.index(probabilities)
        each = None if w is None else np.repeat(w, state.classes)
        _add(state.class_count, cells.ravel(), each)
        _add(state.class_confidence, cells.ravel(), times(probabilities.ravel(), each))
        _add(state.class_correct, cells[rows, labels], w)


def _probabilities_and_nll(
    scores: np.ndarray, labels: np.ndarray, logits: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return p (n, K) and −log p_y; logits use log-sum-exp in float64, so it is finite."""
    rows = np.arange(len(labels))
    if not logits:
        # Rounding can put a probability slightly below 0. If p_y = 0 the loss is ∞.
        chosen = np.maximum(scores[rows, labels].astype(np.float64), 0)
        with np.errstate(divide="ignore"):
            return scores, -np.log(chosen)
    shifted = scores.astype(np.float64)
    with np.errstate(over="ignore"):  # A class ruled out by the lowest float: −∞, so exp gives 0.
        shifted -= shifted.max(axis=1, keepdims=True)
    chosen = shifted[rows, labels]
    np.exp(shifted, out=shifted)
    sums = shifted.sum(axis=1, keepdims=True)
    shifted /= sums
    return shifted, np.log(sums[:, 0]) - chosen


def _add(total: np.ndarray, cell: np.ndarray, weights: np.ndarray | None = None) -> None:
    """total.ravel()[cell] += weights, in place, with repeated cells added up."""
    if cell.size < total.size // _SPARSE:  # A pass over the whole table would cost more.
        np.add.at(total.reshape(-1), cell, 1 if weights is None else weights)
        return
    added = np.bincount(cell, weights, minlength=total.size)
    total += added.reshape(total.shape).astype(total.dtype, copy=False)
