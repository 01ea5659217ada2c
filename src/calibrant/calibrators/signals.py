"""What a prediction shows besides its confidence: signals of rows, of words, of sentences.

A *row signal* follows from the scores of one example: margin and entropy. A *given* signal is a
column of ``Predictions.signals``: the pieces of a word, a distance to the training data. A
*context* signal is a mean over the group (sentence, image, batch) that an example belongs to; its
name is that of the group, a dot, and what is averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calibrant.arrays import Array, to_numpy
from calibrant.calibrators.backend import constant, log_probabilities, namespace
from calibrant.calibrators.checks import needed_columns
from calibrant.errors import InputError, nearest_name
from calibrant.predictions import Kind, Predictions

__all__ = [
    "CORRUPTION",
    "Top",
    "claim_of",
    "context_group",
    "signal_columns",
    "signal_names",
    "top_of",
]

CORRUPTION = "corruption"  # The group that tells corrupted copies ("typos-3") from clean rows ("").
# The first that there is gives the context; a batch was collected together, in one condition.
_GROUPS = ("sentence", "image", "example", "batch")
_OWN = ("log_odds", "unsure", "size")  # Context that follows from scores and group alone.
_UNSURE = np.log(9.0)  # Log-odds of a confidence of 0.9.
_MOST = 20.0  # Log-odds beyond which one word would decide the mean of its sentence.
_LEAST_ENTROPY = 1e-6  # Nats: below, rounding decides.
_VALUES = 1 << 16  # Scores that are read at a time: they stay in cache.
_LEAST_ODDS = 1e-300
_HUGE = 1e30  # Of a signal: sums over a group, and float32 in exports, stay finite.


class Top(NamedTuple):
    """What the scores of each row say about the predicted class; columns have shape (n,)."""

    predicted: Array
    log_odds: Array  # log c / (1 − c) of its probability c.
    margin: Array  # The largest logit minus the second.
    entropy: Array  # Its logarithm.
    below: Array  # (n, K): by how much each logit is below the largest, up to 0.


def top_of(logits: Array) -> Top:
    """Return the predicted class of each row of logits with its row signals.

    >>> top = top_of(np.array([[100.0, 0.0], [0.0, 1.0]]))
    >>> top.log_odds, top.margin
    (array([100.,   1.]), array([100.,   1.]))
    """
    xp = namespace(logits)
    predicted = xp.argmax(logits, axis=-1)
    below = logits - xp.amax(logits, axis=-1, keepdims=True)
    is_top = constant(np.arange(int(logits.shape[-1])), logits) == predicted[..., None]
    odds = xp.exp(below)  # Relative to the predicted class.
    rest = xp.where(is_top, 0.0, odds).sum(axis=-1)
    total = odds.sum(axis=-1)
    entropy = xp.log(total) - (odds * below).sum(axis=-1) / total
    return Top(
        predicted,
        -xp.log(xp.clip(rest, _LEAST_ODDS, None)),
        -xp.amax(xp.where(is_top, -np.inf, below), axis=-1),
        xp.log(xp.clip(entropy, _LEAST_ENTROPY, None)),
        below,
    )


def claim_of(logits: Array) -> Top:
    """Return what the scores of each claim say: class 1 is "came true", and always predicted.

    >>> claim_of(np.array([[0.0, 2.0], [1.0, 0.0]])).log_odds
    array([ 2., -1.])
    """
    top = top_of(logits)
    claimed = logits[..., 1] - logits[..., 0]
    return top._replace(predicted=0 * top.predicted + 1, log_odds=claimed, margin=claimed)


def signal_names(
    predictions: Predictions, wanted: Sequence[str] | None = None, *, context: bool = True
) -> tuple[str, ...]:
    """Return the columns that a calibrator reads; ``wanted`` limits the given signals.

    A given signal that is called like one of a group (``size``) has no mean over its group.
    """
    given = sorted(predictions.signals) if wanted is None else list(wanted)
    if (odd := context_group(given)) is not None:
        name = next(name for name in given if name.startswith(f"{odd}."))
        raise InputError(
            f"A signal may not be called '{name}': means over the group '{odd}' have such names. "
            f"Rename it, for example to '{name.replace('.', '_')}'."
        )
    groups = _GROUPS if context else ()
    group = next((name for name in groups if name in predictions.groups), None)
    if group is None:
        return tuple(given)
    averaged = (*(name for name in given if name not in _OWN), *_OWN)
    return (*given, *(f"{group}.{name}" for name in averaged))


def context_group(names: Iterable[str]) -> str | None:
    """Return the group whose means are among the columns.

    >>> context_group(["pieces", "sentence.pieces"])
    'sentence'
    """
    firsts = (name.partition(".")[0] for name in names if "." in name)
    return next((first for first in firsts if first in _GROUPS), None)


def signal_columns(
    who: str,
    names: Sequence[str],
    rows: Array,
    kind: Kind,
    floor: float,
    groups: Mapping[str, Any],
    signals: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Return the named columns, one number per row of scores."""
    group = context_group(names)
    given = {n: _given(who, n, signals, len(rows)) for n in names if not _is_context(n, group)}
    if group is None:
        return given
    mean = _GroupMean(_group_numbers(who, group, groups, len(rows)))
    if len(rows):
        z = _log_odds(rows, kind, floor)
        given_means = {name: mean(column) for name, column in given.items()}
        own = {"log_odds": mean(z), "unsure": mean(z < _UNSURE)}
        means = {**given_means, **own, "size": np.log(mean.size)}
    else:
        means = dict.fromkeys((*given, *_OWN), np.empty(0))
    return {n: means[n.partition(".")[2]] if _is_context(n, group) else given[n] for n in names}


def _is_context(name: str, group: str | None) -> bool:
    return group is not None and name.startswith(f"{group}.")


def _given(who: str, name: str, signals: Mapping[str, Any], rows: int) -> np.ndarray:
    if name not in signals:
        near = nearest_name(name, map(str, signals))
        advice = near or f"Files have it as the column 'signal.{name}'."
        raise InputError(
            f"{who} was fitted with the signal '{name}', which is missing; got signals "
            f"{sorted(signals)}. {advice}"
        )
    column = np.asarray(to_numpy(signals[name]), np.float64).reshape(-1)
    if len(column) != rows:
        raise InputError(
            f"{who} needs one value of the signal '{name}' per example: {rows} examples, "
            f"{len(column)} values."
        )
    if not np.isfinite(column).all():
        row = int(np.isfinite(column).argmin())
        raise InputError(f"Signal '{name}' must be finite, got {column[row]} at row {row}.")
    return np.clip(column, -_HUGE, _HUGE)


def _group_numbers(who: str, group: str, groups: Mapping[str, Any], rows: int) -> np.ndarray:
    """Return the number of each row's group; a copy of a sentence counts as another sentence."""
    copied = [CORRUPTION] if CORRUPTION in groups else []
    columns = needed_columns(who, [group, *copied], groups, rows)
    numbers = np.unique(columns[group], return_inverse=True)[1]
    for name in copied:
        values, copy = np.unique(columns[name], return_inverse=True)
        numbers = numbers * len(values) + copy
    return np.asarray(np.unique(numbers, return_inverse=True)[1])


def _log_odds(rows: Array, kind: Kind, floor: float) -> np.ndarray:
    """Return the log-odds of the confidence of each row up to 20, some rows at a time.

    Beyond, 1 − c would be lost in rounding here.
    """
    parts, size = [], max(1, _VALUES // int(rows.shape[1]))
    for start in range(0, len(rows), size):
        part = np.asarray(to_numpy(rows[start : start + size]), np.float64)
        logits = part if kind == "logits" else log_probabilities(part, floor)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        parts.append(-np.log(np.maximum(odds.sum(axis=1) - 1, np.exp(-_MOST))))
    return np.concatenate(parts)


class _GroupMean:
    """The mean of a column over the group of each row."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers, self._count = numbers, np.bincount(numbers)

    def __call__(self, column: np.ndarray) -> np.ndarray:
        sums = np.bincount(self._numbers, column)
        return np.asarray((sums / self._count)[self._numbers])

    @property
    def size(self) -> np.ndarray:
        """The rows of the group of each row."""
        return np.asarray(self._count[self._numbers])
