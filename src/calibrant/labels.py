"""Labels as people have them: class numbers, names, truth values, categories, or missing.

All become class numbers. A missing label (None, NaN, an empty cell) becomes NaN:
:class:`calibrant.Predictions` drops such rows, and counts them in ``unlabelled``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.arrays import as_array, describe_objects, is_tensor
from calibrant.errors import InputError
from calibrant.inputs import shortened
from calibrant.validation import RowError

__all__ = [
    "MISSING_TEXTS",
    "NO_TEXT",
    "as_labels",
    "decoded",
    "describe_ignored",
    "is_missing",
    "is_number",
    "is_whole_number",
    "label_numbers",
    "lone_positive",
    "of_positive",
    "positive_names",
    "true_is_one",
    "truth_values",
    "without_zeros",
]

_IGNORED = -100
_MOST_DIGITS = 18  # Of a number of 64 bits.
# Texts that programs write for a missing value. "none" and "NONE" are names of classes.
NO_TEXT = ("", "nan", "NaN", "<NA>")
MISSING_TEXTS = (*NO_TEXT, "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None")
# As %.18e, the default of numpy.savetxt; 1e5 may be a name.
_SCIENTIFIC = re.compile(r"-?\d\.\d+e[+-]\d\d+")
_TRUTH = {"true": 1, "false": 0}
_TRUTH_NAMES = {**_TRUTH, "yes": 1, "no": 0, "1": 1, "0": 0}


def as_labels(labels: Any, names: Sequence[str] | None, classes: int) -> tuple[Any, Any]:
    """Return labels as an array of numbers, and the label names, which categories may give.

    ``classes`` is the number of columns of the scores. The categories of a pandas Categorical are
    the label names if there are none and as many categories as columns, in their order.

    >>> as_labels(["dog", "cat", None], ["cat", "dog"], 2)
    (array([ 1.,  0., nan]), ['cat', 'dog'])
    """
    categories = getattr(getattr(labels, "cat", labels), "categories", None)
    if categories is not None and not is_tensor(labels):
        return _of_categories(labels, list(categories), names, classes)
    array = labels if is_tensor(labels) else as_array(labels)
    if str(array.dtype) in ("bool", "torch.bool"):
        return (array if true_is_one(names) else 1 - array * 1), names
    if is_tensor(array) or array.dtype.kind not in "OUS":
        return array, names
    return _of_objects(array.reshape(-1), names).reshape(array.shape), names


def _of_objects(array: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    """Return the numbers of labels that are text, or numbers some of which are missing."""
    if array.dtype == object:
        values = [np.nan if is_missing(value) else value for value in array.tolist()]
        if all(isinstance(value, (int, float, np.number)) for value in values):
            numbers = np.array(values)
            if numbers.dtype != object:
                truth = all(isinstance(value, bool) or value != value for value in values)
                return 1 - numbers if truth and not true_is_one(names) else numbers
        if not all(isinstance(value, (str, bytes)) or value != value for value in values):
            raise InputError(
                f"Predictions expects labels as numbers or text, got {describe_objects(array)}."
            )
        array = np.array(["" if value != value else value for value in values], object)
    return label_numbers(array, names, None)


def _of_categories(
    labels: Any, categories: list[Any], names: Sequence[str] | None, classes: int
) -> tuple[Any, Any]:
    codes = np.asarray(getattr(getattr(labels, "cat", labels), "codes"))  # noqa: B009 - no type
    if all(isinstance(category, (int, float, np.number)) for category in categories):
        values = np.append(np.asarray(categories, np.float64), np.nan)
        if all(isinstance(category, bool) for category in categories) and not true_is_one(names):
            values = 1 - values
        return values[codes], names  # Categories that are numbers are class numbers.
    texts = [str(category) for category in categories]
    if names is None and len(texts) == classes:
        names = texts
    if names is None:
        raise InputError(
            f"Predictions expects as many categories as columns of scores, got {len(texts)} and "
            f"{classes}; give label_names, in the order of the columns."
        )
    return label_numbers(np.array([*texts, ""], object)[codes], names, None), names


def is_missing(value: Any) -> bool:
    """Return whether a value means "no label": None, NaN, pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def label_numbers(column: np.ndarray, names: Sequence[str] | None, name: str | None) -> np.ndarray:
    """Return class numbers as they are, and text as the number of the class of that name.

    ``name`` is the column of a file, or None for labels that were passed in Python. Missing labels
    are NaN; without any, the numbers are integers.
    """
    if column.dtype.kind == "b" and not true_is_one(names):
        return 1 - column.astype(np.int64)
    if column.dtype.kind not in "OUS":
        return column
    if column.ndim > 1:
        return label_numbers(column.reshape(-1), names, name).reshape(column.shape)
    known = _Names(names)
    numbers: dict[Any, float] = {}
    for text in dict.fromkeys(column.tolist()):
        number = known.number(decoded(text))
        if number is None:
            row = int((column == text).argmax())
            raise RowError(f"{known.complaint(decoded(text), name)} at {{where}}.", row)
        numbers[text] = number
    whole = not any(number != number for number in numbers.values())
    kind = np.int64 if whole else np.float64
    return np.fromiter((numbers[text] for text in column.tolist()), kind, len(column))


def true_is_one(names: Sequence[str] | None) -> bool:
    """Return whether a label that is true means class 1: not if class 0 is called true.

    >>> true_is_one(["ham", "spam"]), true_is_one(["True", "False"])
    (True, False)
    """
    meant = [_TRUTH_NAMES.get(without_zeros(name).lower()) for name in names or ()]
    return meant != [1, 0]


def decoded(text: Any) -> str:
    """Return a value as text; bytes are read as UTF-8."""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


_NOT = "not "


def positive_names(positive: Any) -> tuple[str, str]:
    """Return the names of two classes of which only the positive one has a name.

    A label that is any other text is then of class 0. Numbers and truth values are compared as
    such: 2.0 is 2, and true is True.

    >>> label_numbers(np.array(["spam", "ham", ""]), positive_names("spam"), None)
    array([ 1.,  0., nan])
    >>> label_numbers(np.array(["2.0", "1.0"]), positive_names(2), None)
    array([1, 0])
    """
    return f"{_NOT}{positive}", str(positive)


def lone_positive(names: Sequence[str] | None) -> str | None:
    """Return the positive class of :func:`positive_names`, or None for other names.

    >>> lone_positive(("not spam", "spam")), lone_positive(("ham", "spam"))
    ('spam', None)
    """
    given = tuple(names or ())
    return given[1] if len(given) == 2 and given == positive_names(given[1]) else None


def is_number(name: str) -> bool:
    """Return whether a label of this name may also be written as a number or a truth value."""
    return is_whole_number(_canonical(name))


def of_positive(labels: Any, positive: Any) -> Any:
    """Return labels that are numbers as 1 where they are the positive one, else 0.

    Text stays, as do numbers if the positive class is not called by one: these are class numbers.

    >>> of_positive([2.0, 1.0, np.nan], 2), of_positive([1, 0], "spam")
    (array([ 1.,  0., nan]), [1, 0])
    """
    if not is_number(str(positive)):
        return labels
    array = labels if is_tensor(labels) else as_array(labels)
    if not is_tensor(array) and array.dtype == object:
        values = [np.nan if is_missing(value) else value for value in array.reshape(-1).tolist()]
        if not all(isinstance(value, (int, float, np.number)) for value in values):
            return labels
        array = np.array(values, np.float64).reshape(array.shape)
    elif not is_tensor(array) and array.dtype.kind not in "biuf":
        return labels
    gaps = array * 0 if (array != array).any() else 0
    chosen = array == int(_canonical(str(positive)))
    return chosen * 1 + (array == _IGNORED) * _IGNORED + gaps


def _canonical(text: str) -> str:
    """Return a label as it is compared with a positive one."""
    plain = without_zeros(text)
    return str(_TRUTH.get(plain.lower(), plain))


class _Names:
    """The label names, looked up in a table: there may be as many labels as names."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.given = names
        self.places: dict[str, int | None] = {}
        for place, name in enumerate(names or ()):
            self.places[name] = None if name in self.places else place  # None: two are called so.
        self.positive = lone_positive(names)
        self.some_are_numbers = any(name.isdecimal() for name in self.places)

    def number(self, text: str) -> float | None:
        """Return the class of a text: a name first, a number only where no name could be meant."""
        if text in self.places:
            return self.places[text]
        plain = text.strip().lower()
        if text.strip() in MISSING_TEXTS:
            return float("nan")
        if self.positive is not None:
            is_positive = _canonical(text) == _canonical(self.positive)
            return float(_IGNORED) if plain == str(_IGNORED) else float(is_positive)
        if plain in _TRUTH and len(self.given or (0, 1)) == 2:
            return _TRUTH[plain] if true_is_one(self.given) else 1 - _TRUTH[plain]
        if not is_whole_number(text):
            return None
        whole = without_zeros(text)
        if self.some_are_numbers and int(whole) != _IGNORED:
            return self.places.get(whole)  # pandas writes 3 as 3.0 where a label is missing.
        return int(whole)

    def complaint(self, text: str, column: str | None) -> str:
        """Return what is wrong with a label that has no number."""
        shown = shortened(text)
        where = "" if column is None else f" in column '{column}'"
        if self.given is None and text.strip().lstrip("-").isdecimal():
            return f"Label {shown}{where} is not a class number"
        if self.given is None:
            give = (
                "label_names=[…], in the order of the columns"
                if column is None
                else "--labels FILE, or Columns(label_names=…); for two classes also "
                "--positive LABEL"
            )
            return (
                f"The labels{where} are text ('{shown}') and the label names are not known; "
                f"give them ({give}), first seen"
            )
        if text in self.places:
            of = ", a label" if column is None else f", the label{where}"
            return f"Two classes are called '{shown}'{of}; use class numbers"
        some = ", ".join(map(shortened, self.given[:8])) + (", …" if len(self.given) > 8 else "")
        return f"Label '{shown}'{where} is not one of the label names ({some})"


def is_whole_number(text: str) -> bool:
    """Return whether a text is a whole number that an array can hold: 7, -100, 3.0.

    >>> is_whole_number("3.0"), is_whole_number("3.5"), is_whole_number("9" * 5000)
    (True, False, False)
    """
    digits = without_zeros(text).removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS


def without_zeros(text: str) -> str:
    """Return a number without a fraction of zeros, also as ``numpy.savetxt`` writes it.

    >>> without_zeros("3.0"), without_zeros("1.200000e+01"), without_zeros("1e5")
    ('3', '12', '1e5')
    """
    plain = text.strip()
    if _SCIENTIFIC.fullmatch(plain) and float(plain).is_integer() and abs(float(plain)) < 2**53:
        return str(int(float(plain)))
    return plain.removesuffix(".0")


def truth_values(column: Any, name: str) -> np.ndarray:
    """Return a column of right and wrong as 1, 0, or NaN where it is missing.

    Takes truth values, 0 and 1, and the texts true, false, 1, 0, yes, no in any case.

    >>> truth_values(["True", "no", ""], "correct")
    array([ 1.,  0., nan])
    """
    array = np.asarray(as_array(column)).reshape(-1)
    if array.dtype.kind == "b":
        return array.astype(np.float64)
    if array.dtype.kind in "OUS":
        array = _truth_of_texts(array, name)
    elif array.dtype.kind not in "iuf":
        raise InputError(f"'{name}' must hold true and false, or 1 and 0, got {array.dtype}.")
    numbers = array.astype(np.float64)
    odd = ~((numbers == 0) | (numbers == 1) | np.isnan(numbers) | (numbers == _IGNORED))
    if odd.any():
        row = int(odd.argmax())
        raise RowError(
            f"'{name}' must hold true and false, or 1 and 0, got {numbers[row]:g} at {{where}}.",
            row,
        )
    return numbers


def _truth_of_texts(array: np.ndarray, name: str) -> np.ndarray:
    known = {**_TRUTH, "yes": 1, "no": 0, "1": 1, "0": 0, "1.0": 1, "0.0": 0, "-100": _IGNORED}
    found: dict[Any, float] = {}
    for value in dict.fromkeys(array.tolist()):
        plain = "" if is_missing(value) else decoded(value).strip().lower()
        if plain not in known and plain not in {text.lower() for text in MISSING_TEXTS}:
            row = next(i for i, other in enumerate(array.tolist()) if other == value)
            shown = shortened(decoded(value))
            raise RowError(
                f"'{name}' must hold true and false, or 1 and 0, got '{shown}' at {{where}}.", row
            )
        found[value] = known.get(plain, np.nan)
    return np.array([found[value] for value in array.tolist()], np.float64)


def describe_ignored(ignored: int, unlabelled: int) -> str:
    """Return why no row is left, where all were dropped.

    >>> describe_ignored(3, 3)
    'all 3 rows are without a label'
    """
    if unlabelled == ignored:
        return f"all {ignored} rows are without a label"
    also = f" or without a label ({unlabelled})" if unlabelled else ", which marks rows to ignore"
    return f"all {ignored} rows are labelled −100{also}"
