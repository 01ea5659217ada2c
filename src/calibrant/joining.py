"""Join parts of predictions and of claims, with their sample weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from calibrant.arguments import check_each
from calibrant.arrays import join_columns
from calibrant.errors import InputError

__all__ = ["Weighted", "agreeing", "joined_columns", "joined_weights"]


class Weighted:
    """Rows that may have sample weights."""

    weights: np.ndarray | None

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def weighted(self) -> bool:
        """Whether the rows have sample weights."""
        return self.weights is not None

    @property
    def size(self) -> float:
        """The number of rows, or the sum of their weights."""
        return len(self) if self.weights is None else float(self.weights.sum())


_Part = TypeVar("_Part")


def agreeing(owner: type[_Part], parts: Iterable[_Part], alike: Sequence[str]) -> list[_Part]:
    """Return the parts that ``owner.concatenate`` joins, if they agree in ``alike`` and columns."""
    who = f"{owner.__name__}.concatenate"
    if not isinstance(parts, Iterable) or isinstance(parts, owner):
        raise InputError(f"{who} takes a list of {owner.__name__}, got {type(parts).__name__}.")
    parts = list(parts)
    if not parts:
        raise InputError(f"{who} expects at least one part, got none.")
    check_each(who, parts, owner)
    for part in parts[1:]:
        _check_same(owner.__name__, parts[0], part, alike)
    return parts


def joined_columns(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the other columns of all parts, in the order of the fields.

    These are groups, number of ignored rows, row numbers, signals, number of rows without a label,
    and weights.
    """
    groups, signals = parts[0].groups, parts[0].signals
    return (
        {name: join_columns([part.groups[name] for part in parts]) for name in groups},
        sum(part.ignored for part in parts),
        _joined_rows(parts),
        {name: np.concatenate([part.signals[name] for part in parts]) for name in signals},
        sum(part.unlabelled for part in parts),
        joined_weights(parts),
    )


def _joined_rows(parts: Sequence[Any]) -> np.ndarray | None:
    """Join the row numbers of the parts, if any part has dropped rows."""
    if all(part.rows is None for part in parts):
        return None
    sizes = [len(part) + part.ignored for part in parts]
    starts = np.cumsum([0, *sizes])
    given = (np.arange(len(part)) if part.rows is None else part.rows for part in parts)
    return np.concatenate([rows + start for rows, start in zip(given, starts, strict=False)])


def joined_weights(parts: Sequence[Any]) -> np.ndarray | None:
    """Join the weights of the parts; either all parts have weights or none has."""
    weights = [part.weights for part in parts if part.weights is not None]
    if len(weights) not in (0, len(parts)):
        raise InputError(
            f"{type(parts[0]).__name__}.concatenate expects weights in all parts, or in none; "
            "weights of 1 have the same effect as no weights."
        )
    return np.concatenate(weights) if weights else None


def _check_same(owner: str, first: Any, part: Any, alike: Sequence[str]) -> None:
    for what in alike:
        these, those = getattr(first, what), getattr(part, what)
        if these != those:
            raise InputError(
                f"{owner}.concatenate expects parts of the same {what}, got {these} and {those}."
            )
    for what in ("groups", "signals"):
        these, those = getattr(first, what), getattr(part, what)
        if set(these) != set(those):
            raise InputError(
                f"{owner}.concatenate expects parts with the same {what}, got {sorted(these)} and "
                f"{sorted(those)}."
            )
