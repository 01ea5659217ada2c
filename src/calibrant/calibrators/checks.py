"""Check that a calibrator's input matches the data that it was fitted on; errors name both."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array, to_numpy
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.predictions import Kind, Predictions
from calibrant.validation import check_logits, check_probabilities

__all__ = [
    "check_classes",
    "check_kind",
    "check_most_classes",
    "check_names",
    "check_predictions",
    "check_same_kind",
    "check_scores",
    "check_some",
    "check_weights",
    "needed_columns",
    "needs_all_classes",
]


def check_predictions(who: str, value: object) -> None:
    """Require Predictions, which know whether their scores are logits or probabilities."""
    if not isinstance(value, (Predictions, Claims)):
        raise InputError(
            f"{who} expects Predictions, got {type(value).__name__}: make them with "
            "Predictions.from_logits(logits, labels) or Predictions.from_probabilities(p, labels), "
            "or from_top_label(predicted, confidence, labels); "
            "transform_scores(scores, kind) calibrates an array without labels."
        )


def needs_all_classes(name: str, kind: str) -> InputError:
    """Return the error of a calibrator that needs more than claims have."""
    return InputError(
        f"{name} needs the scores of all classes; {kind} predictions have one confidence "
        "each. Use temperature, platt, beta, quadratic-top-label, spline, isotonic-top-label, "
        "venn-abers-top-label or another calibrator of one number."
    )


def check_same_kind(who: str, fitted: str | None, given: Predictions | Claims) -> None:
    """Require claims of the kind that the calibrator was fitted on, or scores of all classes."""
    kind = given.kind if isinstance(given, Claims) else None
    if kind != fitted:
        names = [f"{k} predictions" if k else "scores of all classes" for k in (fitted, kind)]
        raise InputError(f"{who} was fitted on {names[0]}, got {names[1]}; fit it on these.")


def check_scores(rows: Array, kind: Kind) -> None:
    """Require scores that Predictions would accept."""
    (check_logits if kind == "logits" else check_probabilities)(rows)


def check_weights(name: str, taken: bool, predictions: Predictions) -> None:
    """Refuse sample weights that a calibrator does not support; warn of far too small sums."""
    if predictions.weighted and not taken:
        raise InputError(
            f"'{name}' takes no sample weights; temperature, isotonic and most other calibrators "
            "do. Without weights: --weights-column ''."
        )
    if predictions.size < len(predictions) / 10:
        warnings.warn(
            f"The weights of {len(predictions)} rows sum to {predictions.size:.3g}, which a fit "
            "takes for the number of examples; scale them to a mean of 1.",
            UserWarning,
            stacklevel=4,
        )


def check_some(who: str, predictions: Predictions) -> None:
    """Require at least one example to learn from."""
    if not len(predictions):
        raise InputError(
            f"{who}.fit needs at least one labelled example, got none "
            f"({predictions.ignored} ignored)."
        )


def check_kind(kind: str) -> None:
    """Require the kind of the scores: logits or probabilities."""
    if kind not in ("logits", "probabilities"):
        raise InputError(f"kind must be 'logits' or 'probabilities', got {kind!r}.")


def check_classes(who: str, classes: int, shape: tuple[int, ...]) -> None:
    """Require one column per class on the last axis."""
    if len(shape) == 1 and shape[0] == classes:
        raise InputError(f"{who} takes rows of {classes} scores; give one row as [[…]].")
    if not shape or shape[-1] != classes:
        raise InputError(
            f"{who} was fitted on {classes} classes, got scores of shape {shape}; give scores of "
            f"the same model, with {classes} columns."
        )


def check_most_classes(who: str, classes: int, most: int) -> None:
    """Require few enough classes to learn K² + K numbers."""
    if classes > most:
        raise InputError(
            f"{who} learns K² + K numbers, {classes**2 + classes:,} for {classes} classes; use "
            f"'temperature' or 'structured-vector', or raise most_classes ({most}) if there are "
            "many examples per class."
        )


def check_names(who: str, mine: tuple[str, ...] | None, theirs: tuple[str, ...] | None) -> None:
    """Require equal label names, if both sides have them for the same number of classes."""
    if mine is None or theirs is None or mine == theirs or len(mine) != len(theirs):
        return
    k = next(k for k, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
    order = " (the same names in another order)" if set(mine) == set(theirs) else ""
    raise InputError(
        f"{who} was fitted on other label names{order}: class {k} is {mine[k]!r} in the "
        f"calibrator and {theirs[k]!r} in the data."
    )


def needed_columns(
    who: str, names: Iterable[str], groups: Mapping[str, Any], rows: int
) -> dict[str, np.ndarray]:
    """Return the columns of ``groups`` that a calibrator reads, with one value per example."""
    columns = {}
    for name in names:
        if name not in groups:
            raise InputError(
                f"{who} needs groups[{name!r}], one value per example; got groups {sorted(groups)}."
            )
        columns[name] = to_numpy(groups[name]).reshape(-1)
        if len(columns[name]) != rows:
            raise InputError(
                f"{who} needs one value of groups[{name!r}] per example: {rows} examples, "
                f"{len(columns[name])} values."
            )
    return columns
