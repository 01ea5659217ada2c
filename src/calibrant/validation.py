"""Check scores and labels once, in chunks, so that no copy of the data is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Array, is_tensor, to_numpy
from calibrant.errors import InputError

__all__ = [
    "RowError",
    "check_labels",
    "check_logits",
    "check_probabilities",
    "check_shapes",
    "check_signals",
    "named_columns",
    "rounded_rows",
]

# Rows written with few digits, or kept in half precision, miss 1 by up to this much. Sums of 0.99
# or 1.01, common with two digits, miss it by a little more than 0.01 in floats.
SUM_TOLERANCE = 0.01001
# A float16 softmax can round to the next number after 1.
RANGE_TOLERANCE = 1e-3

_CHUNK = 1 << 18  # Values per check: small enough to stay in cache.
_DEVICE_CHUNK = 1 << 26  # On a device few large kernels beat many small ones.

_UNSIGNED = {np.dtype(f"f{size}"): np.dtype(f"u{size}") for size in (2, 4, 8)}


class RowError(InputError):
    """Something wrong in one row; :meth:`at` says the same where the row is known by another name.

    Checks number the rows that they see. Whoever dropped rows before, or knows the line of the
    file, catches the error and raises it again with the number that the user knows.

    >>> print(RowError("Label 7 is outside 0..2 at {where}.", 3).at("line 12"))
    Label 7 is outside 0..2 at line 12.
    """

    def __init__(self, message: str, row: int, where: str | None = None) -> None:
        super().__init__(message.replace("{where}", where or f"row {row}"))
        self.message, self.row = message, row

    def at(self, where: str) -> RowError:
        """Return the same error with ``where`` in place of the row number."""
        return RowError(self.message, self.row, where)


def named_columns(what: str, given: Any) -> dict[str, Any]:
    """Return what users pass as ``groups`` or ``signals``: columns by name.

    >>> named_columns("groups", [1, 2])
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: groups must be columns by name, such as {'name': values}, got list.
    """
    if given is None:
        return {}
    if not hasattr(given, "keys"):
        raise InputError(
            f"{what} must be columns by name, such as {{'name': values}}, got "
            f"{type(given).__name__}."
        )
    for name in given.keys():  # noqa: SIM118 – of a table.
        if not hasattr(given[name], "__len__"):
            raise InputError(
                f"{what} must have one value per example in each column, got {given[name]!r} "
                f"as '{name}'."
            )
    return {name: given[name] for name in given.keys()}  # noqa: SIM118


def check_shapes(
    kind: str,
    scores: Array,
    labels: Array,
    label_names: Sequence[str] | None,
    groups: Mapping[str, Any],
    signals: Mapping[str, Any],
) -> None:
    """Check scores (n, K) of a known kind, n labels, K names, groups and signals of n values."""
    shape, n = tuple(scores.shape), tuple(labels.shape)
    if kind not in ("logits", "probabilities"):
        raise InputError(f"kind must be 'logits' or 'probabilities', got {kind!r}.")
    if len(shape) != 2 or n != shape[:1]:
        raise InputError(
            f"Predictions expects scores of shape (n, K), classes last, and n labels, got {shape} "
            f"and {n}{_shape_advice(shape, n)}."
        )
    if shape[1] < 2:
        raise InputError(
            f"Predictions expects at least 2 classes, got {shape[1]} column(s); for a binary "
            "classifier with one score per example pass a one-dimensional array."
        )
    if label_names is not None and len(label_names) != shape[1]:
        raise InputError(
            f"Predictions expects one label name per column: {shape[1]} columns, "
            f"{len(label_names)} names."
        )
    for what, columns in (("Group", groups), ("Signal", signals)):
        for name, column in columns.items():
            if len(column) != shape[0]:
                raise InputError(
                    f"{what} '{name}' has {len(column)} values for {shape[0]} examples; "
                    "give one value per example."
                )


def _shape_advice(scores: tuple[int, ...], labels: tuple[int, ...]) -> str:
    """Return what to do about labels of a shape that is often met."""
    if len(scores) == 3 and scores[2] == 2 and labels == (scores[1], scores[0]):
        return (
            "; for the list of arrays of a multi-label classifier, one (n, 2) per label, use "
            "Predictions.from_multi_label"
        )
    if len(scores) == 2 and labels == (scores[0], 1):
        return "; flatten the labels (labels.ravel())"
    if len(scores) == 2 and labels == scores:
        return (
            "; for several labels per example say so (--kind multi-label, "
            "Predictions.from_multi_label), and turn one-hot labels into numbers (labels.argmax(1))"
        )
    return ""


def check_labels(labels: Array, classes: int) -> None:
    """Check that every label is in 0..K−1 (−100 has been dropped before)."""
    if not len(labels) or (int(labels.min()) >= 0 and int(labels.max()) < classes):
        return
    row = int(to_numpy((labels < 0) | (labels >= classes)).argmax())
    advice = "−100 marks examples to ignore"
    if classes == 2 and bool(((labels == -1) | (labels == 1)).all()):
        advice = "turn labels of −1 and 1 into 0 and 1 (labels > 0)"
    raise RowError(
        f"Label {int(labels[row])} at {{where}} is outside 0..{classes - 1} (K = {classes} "
        f"columns); {advice}.",
        row,
    )


def check_logits(logits: Array) -> None:
    """Check that every logit is finite, or −∞ (a masked option) next to a finite one in its row."""
    for start, chunk in _chunks(logits):
        if not _finite(chunk):
            _check_masks(to_numpy(chunk), start)


def _check_masks(chunk: np.ndarray, start: int) -> None:
    wrong = np.isnan(chunk) | (chunk == np.inf)
    if wrong.any():
        _raise_not_finite("Logits", np.where(wrong, chunk, 0), start)
    closed = (chunk == -np.inf).all(axis=1)
    if closed.any():
        raise RowError(
            "Logits of −∞ rule a class out, so at least one in a row must be finite; {where} has "
            "none.",
            start + int(closed.argmax()),
        )


def check_probabilities(probabilities: Array) -> None:
    """Check that every value is in 0..1 and every row sums to 1."""
    for start, chunk in _chunks(probabilities):
        if not _surely_in_range(chunk):
            if not _finite(chunk):
                _raise_not_finite("Probabilities", chunk, start)
            _check_range(chunk, start)
        _check_sums(chunk, start)


def rounded_rows(probabilities: Array) -> int:
    """Return how many rows miss a sum of 1 by more than half precision does: few digits."""
    missed = (abs(_row_sums(chunk) - 1) > SUM_TOLERANCE for _, chunk in _chunks(probabilities))
    return sum(int(rows.sum()) for rows in missed)


def check_signals(signals: Mapping[str, np.ndarray]) -> None:
    """Check that every value of a signal is finite: NaN could become any confidence."""
    for name, column in signals.items():
        if not _finite(column):
            row = int(np.isfinite(column).argmin())
            raise RowError(f"Signal '{name}' must be finite, got {column[row]} at {{where}}.", row)


def _check_range(chunk: Array, start: int) -> None:
    wrong = (chunk < -RANGE_TOLERANCE) | (chunk > 1 + RANGE_TOLERANCE)
    if bool(wrong.any()):
        row = int(to_numpy(wrong).any(axis=1).argmax())
        # More than one: a single score of class 1 is stored as (1 − score, score).
        values = [f"{value:.6g}" for value in to_numpy(chunk[row][wrong[row]])[:3]]
        raise RowError(
            f"Probabilities must be in 0..1, got {' and '.join(values)} at {{where}}; "
            "if these are logits, say so (Predictions.from_logits, or --logits-column NAME).",
            start + row,
        )


def _check_sums(chunk: Array, start: int) -> None:
    sums = _row_sums(chunk)
    wrong = abs(sums - 1) > SUM_TOLERANCE
    if not bool(wrong.any()):
        return
    unexplained = ~_by_rounding(to_numpy(chunk[wrong]))
    if unexplained.any():
        row = int(to_numpy(wrong).nonzero()[0][unexplained.argmax()])
        raise RowError(
            f"Probabilities must sum to 1 in each row; {{where}} sums to {float(sums[row]):.6g}, "
            "which rounding does not explain. Are these logits (--logits-column NAME), or "
            "independent probabilities (--kind multi-label)? Divide rounded rows by their sum.",
            start + row,
        )


def _by_rounding(rows: np.ndarray) -> np.ndarray:
    """Whether each row sums to 1, up to the rounding of its values to 2, 3, 4 or 5 digits.

    Each of the K values misses by up to half of its last digit, and a value of 0 only downwards:
    −K / (2 · 10ᵈ) ≤ Σ pₖ − 1 ≤ |{k : pₖ > 0}| / (2 · 10ᵈ). A row that lost half of its sum is no
    longer a distribution, for any reason.
    """
    wide = rows.astype(np.float64)
    miss, positive = wide.sum(axis=1) - 1, (wide > 0).sum(axis=1)
    explained = np.zeros(len(rows), bool)
    for unit in (10.0**digits for digits in range(2, 6)):
        slack = unit * float(np.finfo(rows.dtype).eps)  # What the type keeps of such a digit.
        if slack < 0.2:
            written = (abs(wide * unit - np.rint(wide * unit)) <= slack).all(axis=1)
            least = max(-0.5, -wide.shape[1] / (2 * unit))
            within = (miss <= positive / (2 * unit)) & (miss >= least)
            explained |= written & within
    return explained


def _surely_in_range(chunk: Array) -> bool:
    """Whether all values are in 0..1, from one pass; False means: look closer.

    Read as unsigned integers, floats keep their order from +0 to +∞, and NaN and whatever has a
    sign come after: the largest integer tells that all are finite, not negative and at most 1.
    """
    if is_tensor(chunk):
        low, high = (float(value) for value in chunk.aminmax())
        return low >= 0 and high <= 1
    unsigned = _UNSIGNED.get(chunk.dtype)
    if unsigned is None:
        return False
    return bool(chunk.view(unsigned).max() <= chunk.dtype.type(1).view(unsigned))


def _row_sums(chunk: Array) -> Array:
    if is_tensor(chunk):
        import torch

        return chunk.sum(dim=1, dtype=torch.float64)
    # A product with a vector of ones adds short rows several times faster than sum(axis=1).
    wide = chunk if chunk.itemsize >= 4 else chunk.astype(np.float32)
    # Some BLAS kernels compute on the junk after short rows and raise flags that mean nothing.
    with np.errstate(all="ignore"):
        return wide @ np.ones(wide.shape[1], dtype=wide.dtype)


def _chunks(scores: Array) -> Iterator[tuple[int, Array]]:
    values = _CHUNK
    if is_tensor(scores) and scores.device.type == "cpu" and "bfloat16" not in str(scores.dtype):
        scores = scores.numpy()  # The same memory.
    elif is_tensor(scores):
        values = _DEVICE_CHUNK
    rows = max(1, values // int(scores.shape[1]))
    return ((i, scores[i : i + rows]) for i in range(0, len(scores), rows))


def _finite(chunk: Array) -> bool:
    """Whether all values are finite, from one pass: then so is their sum, unless it overflows."""
    if is_tensor(chunk):
        import torch

        return bool(chunk.sum(dtype=torch.float64).isfinite()) or bool(chunk.isfinite().all())
    if chunk.dtype == np.float16:
        # Arithmetic in half precision is slow. As integers, +∞ and NaN are 0x7C00 and above,
        # −∞ and NaN with a sign 0xFC00 and above.
        signed, unsigned = chunk.view(np.int16).max(), chunk.view(np.uint16).max()
        return bool(signed < 0x7C00 and unsigned < 0xFC00)
    with np.errstate(all="ignore"):
        return bool(np.isfinite(chunk.sum())) or bool(np.isfinite(chunk).all())


def _raise_not_finite(what: str, chunk: Array, start: int) -> None:
    row, column = divmod(int(np.isfinite(to_numpy(chunk)).argmin()), int(chunk.shape[1]))
    value = float(chunk[row, column])
    raise RowError(
        f"{what} must be finite, got {value} at {{where}}, column {column}.",
        start + row,
    )
