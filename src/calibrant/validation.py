"""What scores and labels must be, checked once in chunks so that no copy of the data is made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.arrays import Array, is_tensor, to_numpy
from calibrant.errors import InputError

__all__ = ["check_labels", "check_logits", "check_probabilities"]

# Rows written with four digits, or kept in half precision, miss 1 by up to this much.
SUM_TOLERANCE = 1e-2
# A float16 softmax can round to the next number after 1.
RANGE_TOLERANCE = 1e-3

_CHUNK = 1 << 18  # Values per check: small enough to stay in cache.


def check_labels(labels: Array, classes: int) -> None:
    """Every label is in 0..K−1 (−100 has been dropped before)."""
    if not len(labels):
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise InputError(
            f"Label {wrong} is outside 0..{classes - 1} (K = {classes} columns); "
            "−100 marks examples to ignore."
        )


def check_logits(logits: Array) -> None:
    """Every logit is finite."""
    for start, chunk in _chunks(logits):
        if not _finite(chunk):
            _raise_not_finite("Logits", chunk, start)


def check_probabilities(probabilities: Array) -> None:
    """Every value lies in 0..1 and every row sums to 1."""
    for start, chunk in _chunks(probabilities):
        if not _finite(chunk):
            _raise_not_finite("Probabilities", chunk, start)
        low, high = float(chunk.min()), float(chunk.max())
        if low < -RANGE_TOLERANCE or high > 1 + RANGE_TOLERANCE:
            worst = low if low < -RANGE_TOLERANCE else high
            raise InputError(
                f"Probabilities must lie in 0..1, got {worst:.6g}; if these are logits, say so "
                "(Predictions.from_logits, or --kind logits)."
            )
        _check_sums(chunk, start)


def _check_sums(chunk: Array, start: int) -> None:
    sums = _row_sums(chunk)
    wrong = abs(sums - 1) > SUM_TOLERANCE
    if bool(wrong.any()):
        row = int(to_numpy(wrong).argmax())
        raise InputError(
            f"Probabilities must sum to 1 in each row; row {start + row} sums to "
            f"{float(sums[row]):.6g}. Are these logits, or one-against-rest scores?"
        )


def _row_sums(chunk: Array) -> Array:
    if is_tensor(chunk):
        return chunk.double().sum(dim=1)
    # A product with a vector of ones adds short rows several times faster than sum(axis=1).
    wide = chunk if chunk.itemsize >= 4 else chunk.astype(np.float32)
    return wide @ np.ones(wide.shape[1], dtype=wide.dtype)


def _chunks(scores: Array) -> Iterator[tuple[int, Array]]:
    rows = max(1, _CHUNK // int(scores.shape[1]))
    if is_tensor(scores) and scores.device.type != "cpu":
        rows = max(1, len(scores))  # On a device few large kernels beat many small ones.
    return ((i, scores[i : i + rows]) for i in range(0, len(scores), rows))


def _finite(chunk: Array) -> bool:
    if is_tensor(chunk):
        return bool(chunk.isfinite().all())
    return bool(np.isfinite(chunk).all())


def _raise_not_finite(what: str, chunk: Array, start: int) -> None:
    row, column = divmod(int(np.isfinite(to_numpy(chunk)).argmin()), int(chunk.shape[1]))
    raise InputError(
        f"{what} must be finite, got {float(chunk[row, column])} at row {start + row}, column "
        f"{column}; for a class that is ruled out use a large negative logit such as −1e4."
    )
