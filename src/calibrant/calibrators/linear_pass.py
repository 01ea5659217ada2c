"""One pass over the data of vector, matrix and Dirichlet scaling: loss, gradient, curvature."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from calibrant.calibrators.backend import softmax
from calibrant.calibrators.passes import compiled, in_order
from calibrant.calibrators.products import rows_times, sum_of_products

__all__ = ["FEW_CLASSES", "row_chunks", "sum_of_nll", "sums_of_spread", "tempered"]

Sums = tuple[float, np.ndarray, np.ndarray]

FEW_CLASSES = 32  # Up to here the whole curvature is made, of (K² + K)² ≤ 1.1 million numbers.
_CHUNK = 1 << 18  # Numbers that one step of a pass makes.


def sum_of_nll(
    x: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    intercepts: np.ndarray,
    counts: np.ndarray | None = None,
    *,
    chunk: int | None = None,
    worth_threads: int | None = None,
) -> Sums:
    """Return Σ −log p_y with p = softmax(W x + b), and its gradients by W and b.

    W has shape (K,), a diagonal, or (K, K). ``counts`` are the sample weights, which the compiled
    pass does not know. A step makes about ``chunk`` numbers; threads share the steps of
    ``worth_threads`` scores and more.
    """
    n, classes = x.shape
    is_vector, module = weights.ndim == 1, None if counts is not None else _compiled_for(x)
    w, b = weights.astype(x.dtype), intercepts.astype(x.dtype)
    labels = np.require(labels, np.int64, ["C", "W"])  # Else numba compiles once more.

    def part(rows: slice) -> Sums:
        x_part, y = x[rows], labels[rows]
        if is_vector and module is not None:
            return _unpacked(module.vector_rows(x_part, y, w, b))
        logits = _logits(x_part, w, b)
        if module is not None:
            loss = module.residual_rows(logits, y)
        else:
            loss = _residual(logits, y, None if counts is None else counts[rows])
        return loss, _weight_slope(logits, x_part, is_vector), np.ones(len(y), x.dtype) @ logits

    chunks = row_chunks(n, classes, is_vector, chunk)
    # Threads pay where calls are few and long.
    in_threads = is_vector and classes > FEW_CLASSES
    loss, w_slope, b_slope = 0.0, np.zeros(weights.shape), np.zeros(classes)
    scores = x.size if in_threads else 0
    for nll, by_weights, by_intercepts in in_order(part, chunks, scores, worth_threads):
        loss += nll
        w_slope += by_weights
        b_slope += by_intercepts
    return loss, w_slope, b_slope


def sums_of_spread(
    x: np.ndarray, weights: np.ndarray, intercepts: np.ndarray, *, chunk: int | None = None
) -> np.ndarray:
    """Return Σ s, Σ s x and Σ s x², s = p (1 − p) with p = softmax(w x + b), as three rows."""
    module, w, b = _compiled_for(x), weights.astype(x.dtype), intercepts.astype(x.dtype)

    def part(rows: slice) -> np.ndarray:
        if module is not None:
            sums: np.ndarray = module.spread_rows(x[rows], w, b)
            return sums
        p = softmax(x[rows] * w + b)
        s = p * (1 - p)
        parts = [s, s * x[rows], s * x[rows] ** 2]
        return np.array([values.sum(axis=0, dtype=np.float64) for values in parts])

    chunks = row_chunks(len(x), x.shape[1], chunk=chunk)
    total: np.ndarray = sum(in_order(part, chunks, x.size), np.zeros((3, x.shape[1])))
    return total


def tempered(
    scores: np.ndarray, beta: float, *, chunk: int | None = None, worth_threads: int | None = None
) -> np.ndarray | None:
    """Return log softmax(β l) in float32 by compiled code, or None where that does not pay."""
    if (module := _compiled_for(scores)) is None:
        return None
    result = np.empty(scores.shape, np.float32)

    def part(rows: slice) -> None:
        logits = np.require(scores[rows], np.float32, ["C", "W"])
        module.log_softmax_rows(logits, np.float32(beta), result[rows])

    chunks = row_chunks(len(scores), scores.shape[1], chunk=chunk)
    list(in_order(part, chunks, scores.size, worth_threads))
    return result


def _compiled_for(x: np.ndarray) -> ModuleType | None:
    if x.dtype != np.float32 or x.shape[1] <= FEW_CLASSES:
        return None
    return compiled("linear_compiled", x.size)


def row_chunks(
    n: int, classes: int, is_vector: bool = True, chunk: int | None = None
) -> Sequence[slice]:
    """Return consecutive slices of the rows."""
    size = max(1, (chunk or _CHUNK) // classes ** (2 if classes <= FEW_CLASSES else 1))
    if not is_vector and classes > FEW_CLASSES:
        size = max(size, 2 * classes)  # Else adding up (K, K) slopes takes as long as the products.
    return [slice(start, start + size) for start in range(0, n, size)]


def _unpacked(sums: np.ndarray) -> Sums:
    classes = len(sums) // 2
    return float(sums[-1]), sums[:classes], sums[classes:-1]


def _logits(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return W x + b; where W is diagonal, as at the start, without a product."""
    diagonal = w if w.ndim == 1 else np.diag(w)
    is_diagonal = np.count_nonzero(w) == np.count_nonzero(diagonal)
    logits: np.ndarray = x * diagonal if is_diagonal else rows_times(x, w.T)
    logits += b
    return logits


def _weight_slope(residual: np.ndarray, x: np.ndarray, is_vector: bool) -> np.ndarray:
    slope: np.ndarray
    slope = np.einsum("nk,nk->k", residual, x) if is_vector else sum_of_products(residual, x)
    return slope


def _residual(logits: np.ndarray, labels: np.ndarray, counts: np.ndarray | None) -> float:
    """Return Σ −log p_y; p − onehot(y) takes the place of the logits, both times the counts."""
    rows = np.arange(len(labels))
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[rows, labels]
    np.exp(logits, out=logits)
    total = logits @ np.ones(logits.shape[1], logits.dtype)
    logits /= total[:, None]
    logits[rows, labels] -= 1
    losses = np.log(total) - chosen
    if counts is not None:
        logits *= counts[:, None].astype(logits.dtype)
        losses = losses * counts
    return float(losses.sum(dtype=np.float64))
