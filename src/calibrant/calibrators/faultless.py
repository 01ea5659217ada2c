"""Limit what a sample without a mistake supports, by the rule of succession.

Where all n predictions are right, the NLL falls as long as confidence rises, and nothing in the
sample says where to stop. n right answers in a row support a confidence of (n + 1) / (n + 2)
(Laplace 1774). So no calibrator raises the mean confidence of such a sample beyond that:
temperatures stop there, and other calibrators that would go further fall back to identity.
Confidences that are higher already stay as they are, because nothing speaks against them either.
Rows in which classes tie for the highest score say nothing about this and are left out, of n as
well.

The same holds for the bins of a calibrator that counts: a bin whose n examples are all right
becomes (n + 1) / (n + 2), and one without an event 1 / (n + 2), which the other classes share where
there are more than two. Venn–Abers gives these numbers by its definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calibrant.calibrators.moments import Sweep
from calibrant.calibrators.newton import Optimum
from calibrant.predictions import Kind, Predictions

__all__ = [
    "is_faultless",
    "most_confidence",
    "most_supported",
    "stopped",
    "supported",
    "unclaimed",
    "untied",
]

_CHUNK = 1 << 14  # Scores at once: most samples have a mistake in the first few.
_MOST_PASSES = 60


def most_confidence(n: float) -> float:
    """Return (n + 1) / (n + 2), the mean confidence that n right predictions support.

    >>> most_confidence(98)
    0.99
    """
    return (n + 1) / (n + 2)


def supported(
    rates: np.ndarray, count: np.ndarray, floor: float | None = None, others: int = 1
) -> np.ndarray:
    """Return the rates, drawn in from 0 and 1 to what ``count`` examples support.

    ``others`` classes share what one more example of another class would give. A bin without
    examples stays as it is. With a number as ``floor``, rates stay so far from 0 and 1 instead.

    >>> supported(np.array([0.0, 0.5, 1.0]), np.array([8, 8, 98]))
    array([0.1 , 0.5 , 0.99])
    """
    if floor is not None:
        return np.asarray(np.clip(rates, floor, 1 - floor))
    least = 1 / (count + 2)
    return np.where(count > 0, np.clip(rates, least / others, 1 - least), rates)


def is_faultless(predictions: Predictions) -> bool:
    """Whether no class has a higher score than the label, in any example."""
    size = max(1, _CHUNK // predictions.classes)
    return all(_all_right(part.scores, part.labels) for part in predictions.chunks(size))


def _all_right(scores: np.ndarray, labels: np.ndarray) -> bool:
    return bool((scores[np.arange(len(labels)), labels] >= scores.max(axis=1)).all())


def unclaimed(
    scores: np.ndarray, kind: Kind, beta: float = 1.0, weights: np.ndarray | None = None
) -> float:
    """Return 1 minus the mean confidence, exact also where it is tiny; logits are times ``beta``.

    >>> unclaimed(np.array([[100.0, 0.0]]), "logits") == math.exp(-100)
    True
    """
    total, size = 0.0, max(1, _CHUNK // scores.shape[1])
    for start in range(0, len(scores), size):
        part = scores[start : start + size].astype(np.float64)
        top = part.max(axis=1, keepdims=True)
        odds = np.exp(beta * (part - top)) if kind == "logits" else part / top
        np.put_along_axis(odds, part.argmax(axis=1)[:, None], 0.0, axis=1)
        rest = odds.sum(axis=1)
        doubt = rest / (1 + rest)
        total += float((doubt if weights is None else doubt * weights[start : start + size]).sum())
    return total / (len(scores) if weights is None else float(weights.sum()))


def untied(scores: np.ndarray) -> np.ndarray:
    """Return a boolean for each row: whether one class alone has the highest score."""
    size = max(1, _CHUNK // scores.shape[1])
    parts = (scores[start : start + size] for start in range(0, max(len(scores), 1), size))
    found = [(part == part.max(axis=1, keepdims=True)).sum(axis=1) == 1 for part in parts]
    return np.concatenate(found)


def stopped(
    best: Optimum, logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> Optimum:
    """Return the optimum; of faultless examples the β ≥ 1 whose mean confidence is supported."""
    if best.at.wrong or best.at.spread == 0:
        return best
    alone = untied(logits)
    decided = logits if alone.all() else logits[alone]
    own = None if weights is None else weights[alone]
    size = len(decided) if own is None else float(own.sum())
    beta = most_supported(best, size, lambda b: unclaimed(decided, "logits", b, own))
    return replace(best, beta=beta, nll=Sweep(logits, labels, weights)(beta).nll)


def most_supported(best: Optimum, size: float, doubt: Callable[[float], float]) -> float:
    """Return the largest β ≥ 1 where ``doubt``, 1 minus the mean confidence, is supported.

    ``size`` is the number of examples that decide, or the sum of their weights.
    """
    least = 1 - most_confidence(size)
    low, high = 1.0, max(1.0, best.beta)
    if not size or doubt(low) <= least:
        high = low
    for _ in range(_MOST_PASSES):
        if high <= low * (1 + 1e-6):
            break
        middle = math.sqrt(low * high)
        low, high = (middle, high) if doubt(middle) > least else (low, middle)
    return low
