"""One-line errors for arguments of the wrong kind: what is expected, what came, what to call."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from calibrant.arrays import is_tensor
from calibrant.errors import InputError

__all__ = ["check_each", "check_kind", "check_unweighted", "check_whole", "takes_arrays"]

Function = TypeVar("Function", bound=Callable[..., Any])
_SCORES = "Predictions.from_probabilities(scores, labels), or from_logits, makes them of arrays"
_HINTS = {
    "CalibrationState": "accumulate(predictions) makes a state",
    "Confidences": "confidences(predictions) keeps what is needed of every example",
    "MatchCounts": "entity_counts(predictions) counts, and entity_f1 takes predictions",
    "ConfidenceSteps": "confidences(predictions) keeps what is needed of every example",
    "Scene": "Scene.from_logits(image, logits, mask) makes one",
    "TagSet": "TagSet.of(label_names) makes one",
    "Calibrator": "calibrant.load_calibrator(path) reads one, Temperature().fit(valid) makes one",
}


def takes_arrays(function: Function, place: int = 0) -> Function:
    """Let a function of predictions also take two arrays: probabilities and labels.

    The argument at ``place`` is the predictions, or the first of the arrays. Logits are never
    guessed from their values; they are refused, with what to call.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if len(args) > place and _is_array(args[place]):
            args = _with_predictions(function.__name__, args, place)
        return function(*args, **options)

    return cast(Function, wrapped)


def takes_no_labels(function: Function, place: int = 0) -> Function:
    """Let a function of predictions say how these are made of two arrays, where it gets them.

    >>> takes_no_labels(lambda predictions: predictions)([0.9, 0.2], [1, 0])
    Traceback (most recent call last):
    calibrant.errors.InputError: <lambda> takes one argument, predictions, which hold the labels: \
Predictions.from_probabilities(probabilities, labels), or from_logits, makes them of two arrays.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if len(args) > place + 1 and all(map(_is_array, args[place : place + 2])):
            who = f"{type(args[0]).__name__}.fit" if place else function.__name__
            raise InputError(
                f"{who} takes one argument, predictions, which hold the labels: "
                "Predictions.from_probabilities(probabilities, labels), or from_logits, makes them "
                "of two arrays."
            )
        return function(*args, **options)

    return cast(Function, wrapped)


def _is_array(value: Any) -> bool:
    """Whether a value is an array of numbers, or lists of them, not one of our types."""
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(
            value[0], (int, float, list, tuple, np.ndarray, np.number)
        )
    if isinstance(value, (np.generic, str, bytes)):
        return False
    return is_tensor(value) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _with_predictions(who: str, args: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    from calibrant.predictions import Predictions

    given = args[place + 1] if len(args) > place + 1 else None
    if not _is_array(given) and not isinstance(given, (list, tuple)):  # Labels may be text.
        before = "metric, " * place
        raise InputError(
            f"{who} takes predictions or a state, or two arrays: {who}({before}probabilities, "
            f"labels); got only {_described(args[place])}."
        )
    made = Predictions.from_probabilities(args[place], args[place + 1])
    return (*args[:place], made, *args[place + 2 :])


def check_kind(who: str, value: Any, *kinds: type) -> None:
    """Raise an InputError where ``value`` is of none of the ``kinds``.

    >>> check_kind("ece", [0.9, 0.1], dict)
    Traceback (most recent call last):
    calibrant.errors.InputError: ece takes dict, got a list.
    """
    if isinstance(value, kinds):
        return
    names = [kind.__name__ for kind in kinds]
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    hint = _hint(value, names)
    raise InputError(f"{who} takes {listed}, got {_described(value)}{f'; {hint}' if hint else ''}.")


def check_unweighted(who: str, predictions: Any, why: str) -> None:
    """Raise an InputError where predictions have sample weights, which ``who`` does not take."""
    if predictions.weighted:
        raise InputError(
            f"{who} takes no sample weights: {why}. Leave them out (weights=None, or "
            "--weights-column '') if every row is drawn as new ones will be."
        )


def check_each(who: str, values: Any, kind: type) -> None:
    """Raise an InputError unless ``values`` is a list or tuple of only ``kind``."""
    if not isinstance(values, (list, tuple)) or isinstance(values, kind):
        raise InputError(f"{who} takes a list of {kind.__name__}, got {_described(values)}.")
    for value in values:
        check_kind(who, value, kind)


def check_whole(who: str, what: str, value: Any, least: int = 1) -> None:
    """Raise an InputError unless ``value`` is a whole number of at least ``least``."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and value is not True
    if not number or isinstance(value, bool) or value != value or int(value) != value:
        raise InputError(f"{who} expects {what}, got {_described(value)}.")
    if value < least:
        raise InputError(f"{who} expects {what}, got {value!r}.")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray) or is_tensor(value):
        return f"an array of shape {tuple(value.shape)}"
    if isinstance(value, (str, os.PathLike)):
        text = str(value)
        return f"the text '{text[:60]}{'…' * (len(text) > 60)}'"
    if value is None or isinstance(value, (bool, int, float, np.number)):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _hint(value: Any, names: list[str]) -> str:
    """Return what to call in place of it."""
    if type(value).__name__ == "CalibrationState" and "Confidences" in names:
        return "it needs every confidence, and a state keeps sums per bin"
    if type(value).__name__ == "Claims":
        return "it needs the scores of all classes, and claims have one confidence each"
    if type(value).__name__ == "Predictions" or "Predictions" not in names:
        return next((_HINTS[name] for name in names if name in _HINTS), "")
    if isinstance(value, (str, os.PathLike)):
        return "calibrant.read(path) reads a file"
    if isinstance(value, (np.ndarray, list, tuple)) or is_tensor(value):
        return _SCORES
    return ""
