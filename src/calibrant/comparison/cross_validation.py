"""Out-of-fold scores: how well a calibrator does on examples that it was not fitted on."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator, likelihood
from calibrant.calibrators.backend import FLOOR
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics import assign_blocks
from calibrant.metrics.blocks import dependent_group
from calibrant.predictions import Predictions

__all__ = [
    "Folds", "brier_if_wrong", "check_folds", "example_brier", "example_nll", "make_folds",
    "out_of_fold",
]  # fmt: skip

_CHUNK = 1 << 18
_BLOCKS = 1000
_RUNS = 10  # Of consecutive groups, per fold.
_BATCH, _FEWEST_BATCHES = "batch", 20


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold and the bootstrap block of each example."""

    count: int
    fold: np.ndarray
    block: np.ndarray

    def in_order(self) -> Folds:
        """Return the folds of examples in the order of :func:`out_of_fold`."""
        order = np.argsort(self.fold, kind="stable")
        return Folds(self.count, self.fold[order], self.block[order])


def check_folds(folds: int) -> None:
    """Check the number of folds."""
    if isinstance(folds, bool) or int(folds) != folds or folds < 2:
        raise InputError(f"Cross-validation takes a whole number of folds ≥ 2, got {folds!r}.")


def make_folds(predictions: Predictions | Claims, folds: int, seed: int) -> Folds:
    """Deal runs of neighbours to the folds: examples that are alike are held out together.

    Tokens of one sentence resemble each other, and so do sentences of one document, or questions
    that one person wrote. With some of them in the fitting part, the others would not be new to the
    calibrator. They are usually next to each other in a file. Whole groups (sentences, images)
    therefore go to a fold in runs of consecutive groups, ten runs per fold. So do batches, over
    which calibrators read means, if there are at least 20. Examples without groups go in one run
    per class and fold, so that every class is in every fold, also in files sorted by class.
    """
    check_folds(folds)
    group = dependent_group(predictions) or _whole_batches(predictions)
    random = np.random.default_rng(seed)
    if group is None:
        count, fold = _runs_of_classes(np.asarray(predictions.labels), folds, random)
    else:
        count, fold = _runs_of_groups(predictions.groups[group], folds, random)
    if count < 2:
        raise InputError(
            f"Comparing calibrators takes at least 2 independent examples to fit on, got {count} "
            "(tokens of one sentence, pixels of one image count as one)."
        )
    return Folds(count, fold, assign_blocks(predictions, group or "auto", blocks=_BLOCKS))


def _whole_batches(predictions: Predictions | Claims) -> str | None:
    """Return the group of batches, unless there is none or it has too few values for a bootstrap.

    A fold with a part of a batch would have other means than the batch has in a file.
    """
    values = predictions.groups.get(_BATCH)
    few = values is None or len(np.unique(np.asarray(values))) < _FEWEST_BATCHES
    return None if few else _BATCH


def _runs_of_groups(
    values: np.ndarray, folds: int, random: np.random.Generator
) -> tuple[int, np.ndarray]:
    """Return the number of folds, and the fold of each example."""
    _, first, group = np.unique(np.asarray(values), return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    count = min(folds, len(first))
    runs = min(_RUNS * count, len(first))
    dealt = random.permutation(runs) % max(count, 1)
    return count, dealt[place[group] * runs // max(len(first), 1)]


def _runs_of_classes(
    labels: np.ndarray, folds: int, random: np.random.Generator
) -> tuple[int, np.ndarray]:
    """Return the number of folds, and the fold of each example; runs begin at a random place."""
    count = min(folds, len(labels))
    order = np.argsort(labels, kind="stable")
    _, start, size = np.unique(labels[order], return_index=True, return_counts=True)
    shift, which = random.integers(0, size), np.repeat(np.arange(len(size)), size)
    place = (np.arange(len(labels)) - start[which] + shift[which]) % size[which]
    run = np.where(size[which] < count, place, place * count // size[which])
    fold = np.empty(len(labels), np.int64)
    fold[order] = (run + start[which]) % max(count, 1)
    return count, fold


@overload
def out_of_fold(calibrator: Calibrator, predictions: Predictions, folds: Folds) -> Predictions: ...
@overload
def out_of_fold(calibrator: Calibrator, predictions: Claims, folds: Folds) -> Claims: ...
def out_of_fold(
    calibrator: Calibrator, predictions: Predictions | Claims, folds: Folds
) -> Predictions | Claims:
    """Return the examples fold by fold, calibrated by fits on the other folds."""
    parts: list[Any] = []
    for number in range(folds.count):
        held_out = folds.fold == number
        fitted = copy.deepcopy(calibrator)
        with warnings.catch_warnings():  # The fit on all examples says what there is to say.
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted.fit(predictions[~held_out])
        parts.append(fitted.transform(predictions[held_out]))
    if isinstance(predictions, Claims):
        return Claims.concatenate(parts)
    if len({part.kind for part in parts}) > 1:  # A calibrator that fell back keeps logits.
        parts = [part.with_scores(part.probabilities(), "probabilities") for part in parts]
    return Predictions.concatenate(parts)


def example_nll(predictions: Predictions | Claims, floor: float = FLOOR) -> np.ndarray:
    """Return −log p_y of each example, in float64; a probability of 0 counts as ``floor``.

    It is the NLL that fits print (:func:`calibrant.calibrators.likelihood.example_nll`).

    >>> p = Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    >>> example_nll(p, 0.25).round(4)
    array([0.6931, 1.6094])
    """
    return _each(lambda part: likelihood.example_nll(part, floor), predictions)


def example_brier(predictions: Predictions | Claims) -> np.ndarray:
    """Return Σ_k (p_k − 1[y = k])² of each example, in float64.

    >>> example_brier(Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0]], [0, 1]))
    array([0.5, 2. ])
    """
    return _each(_brier, predictions)


def brier_if_wrong(predictions: Predictions | Claims) -> np.ndarray:
    """Return the Brier score of each example if another class were right, any as likely.

    Σ p² + 1 − 2 p_y becomes Σ p² + 1 − 2 p_j, whose mean over j ≠ y has (1 − p_y) / (K − 1).

    >>> brier_if_wrong(Predictions.from_probabilities([0.9, 1.0], [1, 1])).round(2)  # 2 p²
    array([1.62, 2.  ])
    """
    return _each(_brier_if_wrong, predictions)


def _each(
    score: Callable[[Predictions], np.ndarray], predictions: Predictions | Claims
) -> np.ndarray:
    predictions = predictions.binary() if isinstance(predictions, Claims) else predictions
    rows = max(1, _CHUNK // predictions.classes)
    parts = [score(part.numpy()) for part in predictions.chunks(rows)]
    return np.concatenate(parts) if parts else np.empty(0)


def _brier(part: Predictions) -> np.ndarray:
    away = np.array(part.probabilities(), np.float64)
    away[np.arange(len(part)), part.labels] -= 1
    return np.asarray(np.einsum("nk,nk->n", away, away))


def _brier_if_wrong(part: Predictions) -> np.ndarray:
    p = np.asarray(part.probabilities(), np.float64)[np.arange(len(part)), part.labels]
    return np.asarray(_brier(part) + 2 * p - 2 * (1 - p) / max(1, part.classes - 1))
