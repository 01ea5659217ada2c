"""Columns of labels as places in a list of their names, −1 where a label is missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from calibrant.arrays import as_array, is_tensor, to_numpy
from calibrant.errors import InputError
from calibrant.labels import (
    MISSING_TEXTS,
    NO_TEXT,
    decoded,
    is_missing,
    is_whole_number,
    without_zeros,
)

__all__ = ["Dictionary", "Encoded", "check_one_reading", "doubtful_names", "encode", "joined_names"]

_FEW_VALUES = 1 << 20  # Whole numbers in a smaller range are found by counting, not by sorting.
_FIRST = 1000  # Rows in which all categories mostly occur.


class Encoded(NamedTuple):
    """A column of labels: the place of each in a list of names, −1 where it is missing.

    ``missing`` has the texts that are read as no label although a class could have that name.
    """

    codes: np.ndarray
    names: tuple[str, ...]
    missing: tuple[str, ...] = ()


class Dictionary(NamedTuple):
    """A column as a file stores it: distinct values, and the place of each row's, −1 for none.

    The attributes are those of a pandas Categorical.
    """

    codes: np.ndarray
    categories: Sequence[Any]


def encode(
    column: Any, predicted: Sequence[str] | None = None, known: Sequence[str] = ()
) -> Encoded:
    """Return labels of any kind as places in the list of their names; whole numbers lose a ".0".

    A text such as NA or None is a missing label, unless it is among those that were ``predicted``:
    then a class has this name. Without these, only an empty text is missing, or one such as nan
    that is not among the ``known`` names.

    >>> encode(["b", "a", None, "b"])
    Encoded(codes=array([ 0,  1, -1,  0]), names=('b', 'a'), missing=())
    >>> encode(np.array([2.0, 0.0, np.nan])).names
    ('0', '2')
    """
    if isinstance(column, Encoded):
        return column
    missing_texts = {*NO_TEXT} - {*known} if predicted is None else _missing_beside(predicted)
    coded = getattr(column, "cat", column)
    if hasattr(coded, "categories"):
        return _encode_categories(np.asarray(coded.codes), list(coded.categories), missing_texts)
    array = to_numpy(column) if is_tensor(column) else np.asarray(as_array(column))
    array = array.reshape(-1)
    if array.dtype.kind in "iub":
        kind = np.int32 if np.can_cast(array.dtype, np.int32) else np.int64
        return _encode_whole(array.astype(kind, copy=False))
    if array.dtype.kind == "f":
        values, codes = np.unique(array, return_inverse=True)
        kept = ~np.isnan(values)
        codes = np.where(kept, np.cumsum(kept) - 1, -1)[codes.reshape(-1)]
        return Encoded(codes, tuple(_plain_number(value) for value in values[kept].tolist()))
    return _encode_texts(array, missing_texts)


def doubtful_names(names: Collection[str]) -> list[str]:
    """Return the names that are read as a missing label where no class has them.

    >>> doubtful_names(["cat", "NA"])
    ['NA']
    """
    return [name for name in names if name in MISSING_TEXTS and name not in NO_TEXT]


def check_one_reading(missing: Collection[str], names: Collection[str], where: str = "") -> None:
    """Refuse a text such as NA that is a class in some rows and was a missing label in others."""
    for name in doubtful_names(names):
        if name in missing:
            raise InputError(
                f"{where}'{name}' is predicted, but was read as a missing label in other rows; "
                "list it among the label names (--labels FILE) if a class has this name."
            )


def _missing_beside(predicted: Sequence[str]) -> set[str]:
    return {*MISSING_TEXTS} - {*predicted}


def _encode_whole(values: np.ndarray) -> Encoded:
    if not len(values):
        return Encoded(values, ())
    low, high = int(values.min()), int(values.max())
    if high - low > _FEW_VALUES:
        distinct, codes = np.unique(values, return_inverse=True)
        return Encoded(codes.reshape(-1), tuple(map(str, distinct.tolist())))
    codes = values.astype(np.int64) - low if low else values
    if len(np.unique(codes[:_FIRST])) == high - low + 1:  # All numbers of the range occur.
        return Encoded(codes, tuple(map(str, range(low, high + 1))))
    seen = np.bincount(codes, minlength=high - low + 1) > 0
    return Encoded((np.cumsum(seen) - 1)[codes], tuple(str(low + k) for k in np.flatnonzero(seen)))


def _encode_texts(array: np.ndarray, missing_texts: Collection[str]) -> Encoded:
    places: dict[Any, int] = {}
    try:
        codes = [places.setdefault(value, len(places)) for value in array.tolist()]
    except TypeError:  # A dict or a list has no hash.
        raise InputError("Labels must be texts or numbers, one for each row.") from None
    table, *found = _named(list(places), missing_texts)
    return Encoded(table[np.array(codes, np.int64)], *found)


def _encode_categories(
    codes: np.ndarray, categories: list[Any], missing_texts: Collection[str]
) -> Encoded:
    """Return what the values themselves give: the categories in use, in the order of the rows."""
    used = _by_appearance(codes[:_FIRST], len(categories))
    if len(used) < len(categories):
        used = _by_appearance(codes, len(categories))
    table, *found = _named([categories[k] for k in used.tolist()], missing_texts)
    place = np.full(len(categories) + 1, -1)
    place[used] = table[:-1]
    return Encoded(place[codes], *found)


def _by_appearance(codes: np.ndarray, categories: int) -> np.ndarray:
    """Return the categories that occur, in the order in which they do first."""
    first = np.full(categories + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # The last one that is written stays.
    found = np.argsort(first[:-1], kind="stable")
    return found[: np.count_nonzero(first[:-1] < len(codes))]


def _named(
    distinct: Sequence[Any], missing_texts: Collection[str]
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Return the place of each distinct value in a list of names (−1: no label) and these names.

    The third part has the texts that were read as no label and could be names.
    """
    named: dict[str, int] = {}
    doubtful: dict[str, None] = {}
    table = np.full(len(distinct) + 1, -1)
    for place, value in enumerate(distinct):
        number = isinstance(value, (bool, float))  # True is 1, as in an array of truth values.
        text = _plain_number(value) if number else decoded(value)
        text = without_zeros(text) if is_whole_number(text) else text
        missing = is_missing(value) or text.strip() in missing_texts
        table[place] = -1 if missing else named.setdefault(text, len(named))
        if missing and not is_missing(value) and text.strip() not in NO_TEXT:
            doubtful[text.strip()] = None
    return table, tuple(named), tuple(doubtful)


def _plain_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def joined_names(columns: Sequence[Encoded]) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Return the names of all columns without repetition, and the places of each column in them.

    >>> joined_names([Encoded(np.array([0, -1]), ("a",)), Encoded(np.array([1, 0]), ("a", "b"))])
    (('a', 'b'), [array([ 0, -1]), array([1, 0])])
    """
    places: dict[str, int] = {}
    joined = []
    for column in columns:
        table = [places.setdefault(name, len(places)) for name in column.names]
        same = table == list(range(len(table)))
        joined.append(column.codes if same else np.array([*table, -1], np.int64)[column.codes])
    return tuple(places), joined
