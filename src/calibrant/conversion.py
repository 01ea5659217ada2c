"""From what users pass (lists, tensors, sentences of tokens) to rows of scores, labels, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays import (
    Array,
    as_array,
    describe_objects,
    is_tensor,
    text_array,
    to_numpy,
)
from calibrant.errors import InputError
from calibrant.inputs import shortened
from calibrant.validation import RowError

__all__ = [
    "NoWeightError",
    "check_order",
    "column_names",
    "flattened",
    "floating",
    "group_column",
    "labels_beside",
    "leading_group",
    "one_column",
    "signal_column",
    "two_columns",
    "weight_column",
]

_IGNORED = -100


class NoWeightError(InputError):
    """No example counts: each weight is 0."""


def leading_group(axes: int) -> str | None:
    """Return what the first of this many axes means: tokens of sentences, pixels of images.

    >>> leading_group(3)
    'sentence'
    """
    return {1: None, 2: None, 3: "sentence", 4: "image"}.get(axes, "example")


def floating(scores: Array, kind: str) -> Array:
    """Return the scores as floats of their own type; whole numbers become float64."""
    if is_tensor(scores):
        return scores if scores.is_floating_point() else scores.double()
    if scores.dtype.kind in "iub":
        return scores.astype(np.float64)
    if scores.dtype == object:
        raise InputError(f"Predictions expects {kind} as numbers, got {describe_objects(scores)}.")
    if scores.dtype.kind != "f":
        raise InputError(
            f"Predictions expects {kind} as an array of numbers, got dtype {scores.dtype}."
        )
    # NumPy's longdouble is no type of torch, of files and of compiled code.
    return scores.astype(np.float64) if scores.dtype.itemsize > 8 else scores


def column_names(scores: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame, and none of an array."""
    names = getattr(scores, "column_names", getattr(scores, "columns", ()))
    return () if callable(names) else tuple(map(str, names))


def check_order(columns: Sequence[str], names: Sequence[str] | None) -> None:
    """Refuse label names that are those of the columns of a data frame in another order.

    >>> check_order(("dog", "cat"), ("cat", "dog"))
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: The columns of the scores are called dog, cat, in this order, but the label names (of labels with categories, these) are cat, dog; pass label_names=list(scores.columns).
    """  # noqa: E501
    if names is not None and sorted(columns) == sorted(names) and tuple(columns) != tuple(names):
        first, second = (", ".join(map(shortened, some[:8])) for some in (columns, names))
        raise InputError(
            f"The columns of the scores are called {first}, in this order, but the label names (of "
            f"labels with categories, these) are {second}; pass label_names=list(scores.columns)."
        )


def two_columns(scores: Array, kind: str) -> Array:
    """Return a binary classifier's single score as two columns: (1 − p, p), or (0, l)."""
    if is_tensor(scores):
        import torch

        first = 1 - scores if kind == "probabilities" else torch.zeros_like(scores)
        return torch.stack([first, scores], dim=1)
    first = 1 - scores if kind == "probabilities" else np.zeros_like(scores)
    return np.stack([first, scores], axis=1)


def one_column(scores: Array, kind: str) -> Array:
    """Return the single score of class 1 of two: P(class 1), or its logit minus that of class 0."""
    return scores[:, 1] if kind == "probabilities" else scores[:, 1] - scores[:, 0]


def flattened(
    scores: Array,
    labels: Array,
    groups: Mapping[str, Any],
    signals: Mapping[str, Any],
    weights: Any = None,
) -> tuple[Array, Array, dict[str, Any], dict[str, Any], Any]:
    """Flatten (b, t, K) scores with (b, t) labels to rows; the leading axis becomes a group."""
    if scores.ndim < 3 or tuple(labels.shape) != tuple(scores.shape[:-1]):
        return scores, labels, dict(groups), dict(signals), weights
    lead, rows = int(scores.shape[0]), int(np.prod(scores.shape[:-1]))
    leading = {str(leading_group(scores.ndim)): np.repeat(np.arange(lead), _inner(lead, rows))}
    flat_groups = leading | {name: _flat(groups[name], lead, rows) for name in groups}
    flat_signals = {name: _flat(signals[name], lead, rows) for name in signals}
    flat_weights = None if weights is None else _flat(weights, lead, rows)
    flat = scores.reshape(rows, scores.shape[-1]), labels.reshape(rows)
    return *flat, flat_groups, flat_signals, flat_weights


def _flat(column: Any, lead: int, rows: int) -> np.ndarray:
    """Flatten a column of the labels' shape, or of one value per sentence, to one value per row."""
    column = np.asarray(column if isinstance(column, list) else to_numpy(column))
    one_each = column.shape == (lead,) and rows != lead
    return np.repeat(column, _inner(lead, rows)) if one_each else column.reshape(-1)


def _inner(lead: int, rows: int) -> int:
    return rows // lead if lead else 0


def group_column(name: str, column: Any) -> np.ndarray:
    """Return a group as a NumPy array of one axis; text may be an array of Python strings."""
    array = to_numpy(column) if is_tensor(column) else np.asarray(as_array(column))
    if array.dtype == object:
        if not all(isinstance(value, str) for value in array.flat):
            found = describe_objects(array)
            raise InputError(f"Group '{name}' must hold numbers or text, got {found}.")
        array = text_array(array.tolist())
    if array.ndim != 1:
        raise InputError(f"Group '{name}' must have one value per example, got {array.shape}.")
    if array.dtype.kind in "Mm":  # Dates are names of groups as texts are.
        return array.astype(str)
    if array.dtype.kind == "S":
        return text_array([value.decode(errors="replace") for value in array.tolist()])
    if array.dtype.kind in "cV":
        raise InputError(f"Group '{name}' must hold numbers or text, got {array.dtype}.")
    return array


def signal_column(name: str, column: Any) -> np.ndarray:
    """Return a signal as a NumPy array of floats of one axis."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"A signal needs a name, got {name!r}.")
    array = to_numpy(column) if is_tensor(column) else np.asarray(as_array(column))
    if array.dtype.kind not in "fiub":
        found = describe_objects(array) if array.dtype == object else f"dtype {array.dtype}"
        raise InputError(f"Signal '{name}' must hold numbers, got {found}.")
    if array.ndim != 1:
        raise InputError(f"Signal '{name}' must have one value per example, got {array.shape}.")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


# Sums of weights and their squares must be numbers that float64 has.
_SMALLEST = 1e-100


def weight_column(weights: Any, counted: np.ndarray, *, some: bool = True) -> np.ndarray:
    """Return sample weights as float64, one per example: finite, none negative.

    Those of examples that are not ``counted`` (ignored, without a label) may be anything. With
    ``some`` they may not all be 0.
    """
    array = to_numpy(weights) if is_tensor(weights) else np.asarray(as_array(weights))
    if array.dtype.kind not in "fiub":
        found = describe_objects(array) if array.dtype == object else f"dtype {array.dtype}"
        raise InputError(f"Weights must be numbers, got {found}.")
    if array.shape != counted.shape:
        raise InputError(
            f"Weights must have one value per example, got shape {array.shape} for "
            f"{len(counted)} examples."
        )
    wide = np.where(counted, array.astype(np.float64), 0.0)
    wrong = ~(np.isfinite(wide) & (wide >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(
            f"A weight must be finite and at least 0, got {wide[row]} at {{where}}.", row
        )
    largest = wide.max(initial=0.0)
    if some and counted.any() and not largest:
        raise NoWeightError("All weights are 0; at least one example must count.")
    if largest and not _SMALLEST <= largest <= 1 / _SMALLEST:
        raise InputError(
            f"The largest weight must lie between {_SMALLEST:g} and {1 / _SMALLEST:g}, got "
            f"{largest:.3g}: divide the weights by the largest."
        )
    return wide


def labels_beside(labels: Array, scores: Array) -> tuple[Array, int]:
    """Return integers in the library and on the device of the scores, and how many are missing.

    A missing label, NaN, becomes −100.
    """
    if is_tensor(scores):
        import torch

        tensor = labels if is_tensor(labels) else torch.as_tensor(to_numpy(labels))
        labels = tensor.to(scores.device)
        if labels.is_floating_point():
            missing = labels.isnan()
            labels = labels.masked_fill(missing, _IGNORED)
            whole = bool((labels.isfinite() & (labels == labels.round())).all())
            return _integers(labels, scores, whole), int(missing.sum())
        return _integers(labels, scores, True), 0
    labels = to_numpy(labels)
    if labels.dtype.kind not in "iubf":
        raise InputError(
            f"Predictions expects labels as class numbers 0..K−1, got dtype {labels.dtype}."
        )
    if labels.dtype.kind != "f":
        return _integers(labels, scores, True), 0
    missing = np.isnan(labels)
    labels = np.where(missing, labels.dtype.type(_IGNORED), labels)
    whole = bool((np.isfinite(labels) & (labels == np.rint(labels))).all())
    return _integers(labels, scores, whole), int(missing.sum())


def _integers(labels: Array, scores: Array, whole: bool) -> Array:
    if not whole:
        raise InputError(
            "Predictions expects labels as class numbers 0..K−1, got fractions or infinity."
        )
    _check_fits(labels, int(scores.shape[1]))
    return labels.long() if is_tensor(labels) else labels.astype(np.int64, copy=False)


def _check_fits(labels: Array, classes: int) -> None:
    """Refuse labels that int64 cannot hold: as one, 2⁶⁴ − 100 would be −100, which is ignored."""
    dtype = to_numpy(labels[:0]).dtype
    if (dtype != np.uint64 and dtype.kind != "f") or dtype == np.float16:  # Up to 65,504.
        return
    numbers = to_numpy(labels)
    outside = numbers >= 2.0**63 if dtype == np.uint64 else np.abs(numbers) >= 2.0**63
    if outside.any():
        row = int(outside.argmax())
        raise RowError(
            f"Label {int(numbers[row])} at {{where}} is outside 0..{classes - 1} (K = {classes} "
            "columns); −100 marks examples to ignore, and needs labels of a signed type.",
            row,
        )
