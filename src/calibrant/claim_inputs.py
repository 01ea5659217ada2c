"""Turn what users pass as claims into arrays: confidences, predicted and true labels, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Array, as_array, describe_objects, is_tensor, to_numpy
from calibrant.encoding import encode, joined_names
from calibrant.errors import InputError
from calibrant.labels import truth_values
from calibrant.validation import RANGE_TOLERANCE, RowError

__all__ = [
    "IGNORED_LABEL",
    "check_confidence",
    "check_predicted",
    "confidence_numbers",
    "label_codes",
    "label_scores",
    "label_table",
    "outcomes",
    "repeated",
    "separate_examples",
]

IGNORED_LABEL = "-100"


def repeated(columns: Mapping[str, Any], n: int, count: int) -> dict[str, np.ndarray]:
    """Return columns of one value per example with one per claim."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    for name, array in arrays.items():
        if array.shape != (n,):
            raise InputError(f"Column '{name}' has shape {array.shape} for {n} examples.")
    return {name: np.repeat(array, count) for name, array in arrays.items()}


def separate_examples(example: np.ndarray, about: np.ndarray) -> np.ndarray:
    """Return a number for each claim's example: two that share a number claim labels twice.

    >>> separate_examples(np.array([0, 0, 1, 1, 0, 0]), np.array([0, 1, 0, 1, 0, 1])).tolist()
    [0, 0, 2, 2, 1, 1]
    """
    rises = about[1:] > about[:-1]
    if ((example[1:] > example[:-1]) | ((example[1:] == example[:-1]) & rises)).all():
        return example  # In the order in which they are made.
    order = np.lexsort((about, example))
    same = (column[order][1:] == column[order][:-1] for column in (example, about))
    again = np.append(False, np.logical_and(*same))[: len(order)]
    place = np.arange(len(order))
    turn = np.empty_like(place)
    turn[order] = place - np.maximum.accumulate(np.where(again, 0, place))
    number = np.unique(example, return_inverse=True)[1]
    return np.asarray(number * (turn.max(initial=0) + 1) + turn)


def label_scores(probabilities: Any) -> np.ndarray:
    """Return the (n, K) probabilities of labels; scikit-learn gives a list of arrays (n, 2)."""
    if isinstance(probabilities, (list, tuple)) and len(probabilities):
        shapes = [np.shape(part) if hasattr(part, "shape") else () for part in probabilities]
        tables = all(len(shape) == 2 for shape in shapes)
        for label, shape in enumerate(shapes if tables else ()):
            if shape[1] != 2:
                raise InputError(
                    "Claims.from_multi_label takes a list of arrays (n, 2), one per label; that of "
                    f"label {label} has shape {shape}: the classifier knows {shape[1]} value(s) of "
                    "this label, so leave it out."
                )
        if tables:
            probabilities = np.stack([np.asarray(part)[:, 1] for part in probabilities], axis=1)
    array = to_numpy(probabilities)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or not array.shape[1]:
        raise InputError(
            "Claims.from_multi_label expects probabilities of shape (n, K), got shape "
            f"{array.shape}."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def label_table(labels: Any, n: int, names: tuple[str, ...]) -> np.ndarray:
    """Return an (n, K) table of 1, 0 and NaN from such a table, or from lists of names."""
    if isinstance(labels, (list, tuple)) and labels and all(map(_is_list_of_names, labels)):
        return _from_lists(labels, n, names)
    array = np.asarray(as_array(labels))
    if array.shape != (n, len(names)):
        raise InputError(
            f"Claims.from_multi_label expects labels of shape ({n}, {len(names)}), or a list of "
            f"label names per example, got shape {array.shape}."
        )
    return truth_values(array.reshape(-1), "labels").reshape(array.shape)


def _is_list_of_names(row: Any) -> bool:
    return isinstance(row, (list, tuple, set)) and all(isinstance(name, str) for name in row)


def _from_lists(labels: Sequence[Any], n: int, names: tuple[str, ...]) -> np.ndarray:
    if len(labels) != n:
        raise InputError(f"Claims.from_multi_label got {n} rows and {len(labels)} lists of labels.")
    places, table = {name: k for k, name in enumerate(names)}, np.zeros((n, len(names)))
    for row, found in enumerate(labels):
        if len(set(found)) < len(found):
            raise RowError(
                "A label is named twice at {where}; for a table of 0 and 1 pass numbers, not text.",
                row,
            )
        for label in found:
            if str(label) not in places:
                raise RowError(f"Label '{label}' at {{where}} is not one of the label names.", row)
            table[row, places[str(label)]] = 1
    return table


def confidence_numbers(confidence: Any) -> np.ndarray:
    """Return confidences as an array of floats, (n,)."""
    array = to_numpy(confidence) if is_tensor(confidence) else np.asarray(as_array(confidence))
    if array.dtype.kind in "OUS":
        found = describe_objects(array) if array.dtype.kind == "O" else "text"
        raise InputError(f"Confidences must be numbers, got {found}.")
    if array.dtype.kind not in "fiub" or array.ndim != 1:
        raise InputError(
            f"Confidences must be numbers of shape (n,), got {array.dtype} of shape {array.shape}."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_confidence(confidence: Array) -> None:
    """Refuse a confidence outside of 0..1."""
    low, high = -RANGE_TOLERANCE, 1 + RANGE_TOLERANCE
    # The least and the largest are NaN if any is; looking for the row takes longer.
    if not len(confidence) or (low <= confidence.min() and confidence.max() <= high):
        return
    wrong = ~((confidence >= low) & (confidence <= high))
    row = int(wrong.argmax())
    value = float(confidence[row])
    advice = "; divide percentages by 100" if 1 < value <= 100 else ""
    raise RowError(f"A confidence must be in 0..1, got {value:.6g} at {{where}}{advice}.", row)


def label_codes(
    predicted: Any, labels: Any, n: int, known: Sequence[str]
) -> tuple[np.ndarray | None, np.ndarray | None, tuple[str, ...] | None, tuple[str, ...]]:
    """Return predicted and true labels as places in one list of names; −1 is a missing label.

    The last part has the texts that were read as a missing label.
    """
    if predicted is not None and labels is not None:
        predicted, labels = _truth_beside(predicted, labels), _truth_beside(labels, predicted)
    first = None if predicted is None else encode(predicted, known=known)
    classes = (*known, *(first.names if first else ()))
    columns = [first, None if labels is None else encode(labels, classes)]
    for name, column in zip(("predicted labels", "labels"), columns, strict=True):
        if column is not None and len(column.codes) != n:
            raise InputError(
                f"Claims.from_top_label expects one of each per row, got {n} confidences and "
                f"{len(column.codes)} {name}."
            )
    given = [column for column in columns if column is not None]
    if not given:
        return None, None, None, ()
    names, codes = joined_names(given)
    found = iter(codes)
    about, truth = (None if column is None else next(found) for column in columns)
    return about, truth, names, columns[1].missing if columns[1] is not None else ()


def _truth_beside(column: Any, other: Any) -> Any:
    """Return texts such as True and False as 1 and 0 where the other column has truth values.

    Of these, a file with gaps has texts.
    """
    if str(getattr(other, "dtype", "")) not in ("bool", "torch.bool"):
        return column
    coded = getattr(column, "cat", column)
    categories = getattr(coded, "categories", None)
    try:
        if categories is not None:
            table = truth_values(np.array([*categories, ""], object), "labels")
            return table[np.asarray(coded.codes)]
        array = np.asarray(as_array(column))
        return truth_values(array, "labels") if array.dtype.kind in "OUS" else column
    except InputError:  # Other texts, which are equal to no truth value.
        return column


def outcomes(
    about: np.ndarray | None,
    truth: np.ndarray | None,
    names: tuple[str, ...] | None,
    correct: Any,
    n: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which claims came true, which rows are ignored, and which have no label."""
    if correct is not None:
        if isinstance(correct, np.ndarray) and correct.dtype == np.bool_ and correct.shape == (n,):
            return correct, np.zeros(n, bool), np.zeros(n, bool)
        values = truth_values(correct, "correct")
        if len(values) != n:
            raise InputError(f"'correct' has {len(values)} values for {n} confidences.")
        return values == 1, values == int(IGNORED_LABEL), np.isnan(values)
    if about is None or truth is None:
        raise InputError(
            "Claims.from_top_label needs predicted and true labels, or correct=…, which says which "
            "predictions are right."
        )
    marked = names.index(IGNORED_LABEL) if names and IGNORED_LABEL in names else -2
    return about == truth, truth == marked, truth == -1


def check_predicted(about: np.ndarray | None, dropped: np.ndarray) -> None:
    """Refuse a row without a predicted label, unless it is dropped."""
    if about is None or not len(about) or about.min() >= 0:
        return
    missing = (about == -1) & ~dropped
    if missing.any():
        raise RowError(
            "No predicted label at {where}: leave such rows out. If a class is called 'nan', list "
            "it among the label names (--labels FILE, label_names=…).",
            int(missing.argmax()),
        )
