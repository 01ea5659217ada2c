"""The few array operations that every calibrator uses, alike for NumPy and torch.

A calibrator is written once: NumPy arrays and torch tensors share the names used here (torch takes
``axis`` and ``keepdims`` as NumPy spells them), and the differences are named functions.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Array, is_tensor

__all__ = [
    "FLOOR",
    "bin_numbers",
    "constant",
    "floored",
    "interpolate",
    "leading",
    "line_sums",
    "log_odds",
    "log_probabilities",
    "log_softmax",
    "log_sum_exp",
    "masked_again",
    "namespace",
    "normalized",
    "pick",
    "sigmoid",
    "softmax",
    "step",
    "unmasked",
    "wide",
]

# Logarithms are taken of max(p, FLOOR): the smallest normal float32 number, log FLOOR = −87.3.
FLOOR = float(np.finfo(np.float32).tiny)

_FEW_EDGES = 64  # Of tables, and columns of scores: a loop over them is faster.


def namespace(array: Array) -> Any:
    """Return the module, numpy or torch, whose functions work on ``array``."""
    return sys.modules["torch"] if is_tensor(array) else np


def constant(value: Any, like: Array) -> Array:
    """Return ``value`` in the library, on the device and (if floating) in the dtype of ``like``."""
    if not is_tensor(like):
        return np.asarray(value)
    # Via NumPy: torch would make a Python float a float32.
    array = np.asarray(value) if not is_tensor(value) else value
    tensor = namespace(like).as_tensor(array, device=like.device)
    return tensor.to(like.dtype) if tensor.is_floating_point() else tensor


def wide(array: Array) -> Array:
    """Convert to float64, or to float32 on a device without float64 (Apple's MPS)."""
    if not is_tensor(array):
        return array.astype(np.float64, copy=False)
    return array.float() if array.device.type == "mps" else array.double()


def pick(table: Array, index: Array) -> Array:
    """Return table[i, index[i]] for each row i, with a trailing axis of length 1."""
    if is_tensor(table):
        return table.gather(-1, index[..., None])
    return np.take_along_axis(table, index[..., None], axis=-1)


def log_sum_exp(logits: Array) -> Array:
    """Return log Σ_k exp l_k, with a trailing axis of length 1.

    >>> log_sum_exp(np.array([[1000.0, 1000.0]])).round(4)
    array([[1000.6931]])
    """
    xp = namespace(logits)
    top = xp.amax(logits, axis=-1, keepdims=True)
    return top + xp.log(xp.exp(logits - top).sum(axis=-1, keepdims=True))


def log_softmax(logits: Array) -> Array:
    """Return the log-probabilities of the logits."""
    return logits - log_sum_exp(logits)


def softmax(logits: Array) -> Array:
    """Return the probabilities of the logits."""
    xp = namespace(logits)
    exponentials = xp.exp(logits - xp.amax(logits, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def floored(probabilities: Array, floor: Any) -> Array:
    """Return max(p, floor), divided by its sum, in rows with a lower value; other rows as they are.

    >>> floored(np.array([[1.0, 0.0], [0.7, 0.3]]), 0.25)
    array([[0.8, 0.2],
           [0.7, 0.3]])
    """
    xp = namespace(probabilities)
    raised = xp.clip(probabilities, floor, None)
    low = (probabilities < floor).any(axis=-1, keepdims=True)
    return xp.where(low, raised / raised.sum(axis=-1, keepdims=True), probabilities)


def log_probabilities(probabilities: Array, floor: Any = FLOOR) -> Array:
    """Return log max(p, floor), which is finite for p = 0, so that every calibrator can use it."""
    xp = namespace(probabilities)
    return xp.log(xp.maximum(probabilities, constant(floor, probabilities)))


def unmasked(logits: Array) -> Array:
    """Return logits with log FLOOR below the row's largest one where they are −∞.

    >>> unmasked(np.array([[2.0, -np.inf]])).round(1)
    array([[  2. , -85.3]])
    """
    xp = namespace(logits)
    lowest = xp.amax(logits, axis=-1, keepdims=True) + math.log(FLOOR)
    return xp.where(logits == -np.inf, lowest, logits)


def masked_again(out: Array, logits: Array, kind: str) -> Array:
    """Return calibrated rows of this kind in which classes with a logit of −∞ stay ruled out.

    >>> masked_again(np.array([[0.6, 0.2, 0.2]]), np.array([[2.0, 1.0, -np.inf]]), "probabilities")
    array([[0.75, 0.25, 0.  ]])
    """
    xp, masked = namespace(logits), logits == -np.inf
    if kind == "logits":
        return xp.where(masked, -np.inf, out)
    return xp.where(masked.any(axis=-1, keepdims=True), normalized(xp.where(masked, 0.0, out)), out)


def leading(out: Array, scores: Array, kind: str, precision: float) -> Array:
    """Return ``out``, of this kind, in which the largest of each row of ``scores`` leads visibly.

    A calibrator that makes scores nearly equal would round them to ties, and a tie predicts the
    first class. The lead is four units of ``precision``, the relative precision of the result, of
    probabilities and in logits, so that their softmax shows it too. Ties of ``scores`` stay.

    >>> leading(np.array([[0.5, 0.5]]), np.array([[1.0, 1.0000001]]), "probabilities", 1e-6)
    array([[0.5     , 0.500002]])
    """
    if is_tensor(out):
        return _led(out, scores, kind, precision)
    near = _with_rivals(out, kind, precision)  # Few rows: for all, it would double the time.
    out[near] = _led(out[near], scores[near], kind, precision)
    return out


def _led(out: Array, scores: Array, kind: str, precision: float) -> Array:
    """Give the largest of each row of ``scores`` its lead in ``out``."""
    xp = namespace(out)
    columns = constant(np.arange(int(out.shape[-1])), out)
    is_top = columns == xp.argmax(scores, axis=-1)[..., None]
    others = _others(out, is_top)
    size = xp.clip(abs(others), 1.0, None) if kind == "logits" else others
    least = others + 4 * precision * size
    behind = is_top & (scores > _others(scores, is_top)) & (out < least)
    return xp.where(behind, least, out)


def _with_rivals(out: np.ndarray, kind: str, precision: float) -> np.ndarray:
    """Return the rows whose second largest score is near the largest."""
    second, best = _two_largest(out)
    size = np.maximum(abs(best), 1.0) if kind == "logits" else best
    return np.flatnonzero(best - second <= 8 * precision * size)


def _two_largest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the second largest and the largest score of each row.

    >>> _two_largest(np.array([[1.0, 3.0, 2.0], [5.0, 5.0, 0.0]]))
    (array([2., 5.]), array([3., 5.]))
    """
    if rows.shape[1] > _FEW_EDGES:
        second, best = np.partition(rows, -2, axis=1)[:, -2:].T
        return second, best
    best, second = rows[:, 0].copy(), np.full(len(rows), -np.inf)
    for column in rows.T[1:]:
        np.maximum(second, np.minimum(best, column), out=second)
        np.maximum(best, column, out=best)
    return second, best


def _others(scores: Array, is_top: Array) -> Array:
    """Return the largest of the other scores of each row."""
    xp = namespace(scores)
    return xp.amax(xp.where(is_top, -np.inf, scores), axis=-1, keepdims=True)


def log_odds(logits: Array) -> Array:
    """Return log p_k / (1 − p_k) = l_k − log Σ_{j≠k} exp l_j, one against the rest.

    Σ_{j≠k} is the whole sum minus one term, except for the largest logit, where that difference
    would cancel: there the other terms are added, relative to the second largest.

    >>> log_odds(np.array([[100.0, 0.0]]))
    array([[ 100., -100.]])
    """
    xp = namespace(logits)
    shifted = logits - xp.amax(logits, axis=-1, keepdims=True)
    columns = constant(np.arange(int(logits.shape[-1])), logits)
    is_top = columns == xp.argmax(logits, axis=-1)[..., None]
    rest = log_sum_exp(xp.where(is_top, -np.inf, shifted))
    # Below the top, Σ_{j≠k} ≥ exp(top) = 1, so the difference loses nothing.
    others = xp.exp(rest) - xp.where(is_top, 0.0, xp.exp(shifted))
    return shifted - xp.where(is_top, rest, xp.log1p(xp.clip(others, 0.0, None)))


def normalized(scores: Array) -> Array:
    """Divide rows by their sum; a row of zeros, which has no information, becomes uniform.

    >>> normalized(np.array([[0.2, 0.2], [0.0, 0.0]]))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    xp = namespace(scores)
    total = scores.sum(axis=-1, keepdims=True)
    empty = total <= 0
    return xp.where(empty, 1.0 / int(scores.shape[-1]), scores / xp.where(empty, 1.0, total))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(−x)), without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    xp = namespace(x)
    small = xp.exp(-abs(x))
    return xp.where(x < 0, small, 1.0) / (1 + small)


def step(edges: Array, values: Array, x: Array) -> Array:
    """Evaluate step functions, one per column: values[c, b] where edge b−1 < x ≤ edge b.

    ``edges`` has shape (C, m), ``values`` (C, m + 1) and ``x`` (n, C).

    >>> step(np.array([[0.5]]), np.array([[0.1, 0.9]]), np.array([[0.2], [0.5], [0.7]]))[:, 0]
    array([0.1, 0.1, 0.9])
    """
    if is_tensor(x):
        return values.T.gather(0, _search(edges, x))
    columns = zip(np.ascontiguousarray(x.T), edges, values, strict=True)
    return np.stack([value[bin_numbers(edge, column)] for column, edge, value in columns]).T


def bin_numbers(edges: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Count the edges that each x exceeds; comparing few edges one by one is ten times faster."""
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, x)
    result = np.zeros(len(x), np.uint8)
    for edge in edges:
        result += x > edge
    return result


def interpolate(nodes: Array, values: Array, x: Array) -> Array:
    """Evaluate piecewise linear functions, one per column, constant beyond the outer nodes.

    ``nodes`` and ``values`` have shape (C, m), m ≥ 2, and ``x`` (n, C).

    >>> nodes, values = np.array([[0.0, 1.0]]), np.array([[0.2, 0.6]])
    >>> interpolate(nodes, values, np.array([[0.5], [2.0]]))[:, 0]
    array([0.4, 0.6])
    """
    if not is_tensor(x):
        columns = zip(np.ascontiguousarray(x.T), nodes, values, strict=True)
        return np.stack([np.interp(column, *map_) for column, *map_ in columns]).T
    right = _search(nodes, x).clip(1, int(nodes.shape[1]) - 1)
    low, high = nodes.T.gather(0, right - 1), nodes.T.gather(0, right)
    width = high - low
    share = ((x - low) / width.where(width > 0, 1.0)).clip(0.0, 1.0)
    start = values.T.gather(0, right - 1)
    return start + share * (values.T.gather(0, right) - start)


def line_sums(
    nodes: Array, intercepts: Array, slopes: Array, columns: Sequence[Array]
) -> list[Array]:
    """Evaluate F sums over S columns of piecewise linear functions: F arrays of shape (n,).

    Column s lies in segment b where node b−1 < x ≤ node b; there, function f is the line
    intercepts[f, s, b] + slopes[f, s, b] · x. ``nodes`` has shape (S, m), the others (F, S, m + 1).

    >>> nodes, intercepts, slopes = np.zeros((1, 1)), np.array([[[0, 1]]]), np.array([[[1, 2]]])
    >>> line_sums(nodes, intercepts, slopes, [np.array([-1.0, 3.0])])
    [array([-1.,  7.])]
    """
    if is_tensor(columns[0]):
        x = namespace(columns[0]).stack(list(columns), -1)
        place = _search(nodes, x)
        lines = zip(intercepts, slopes, strict=True)
        return [(i.T.gather(0, place) + s.T.gather(0, place) * x).sum(-1) for i, s in lines]
    sums = [np.zeros(len(columns[0])) for _ in intercepts]
    for s, column in enumerate(columns):
        place = bin_numbers(nodes[s], column)
        for f, total in enumerate(sums):
            total += slopes[f, s].take(place) * column
            total += intercepts[f, s].take(place)
    return sums


def _search(edges: Array, x: Array) -> Array:
    """Count the edges of its column that each x of a tensor exceeds."""
    return namespace(x).searchsorted(edges.contiguous(), x.T.contiguous()).T
