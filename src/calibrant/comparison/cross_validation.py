"""Out-of-fold scores: how well a map does on examples that it was not fitted on."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator
from calibrant.calibrators.backend import FLOOR, log_softmax
from calibrant.errors import InputError
from calibrant.metrics import assign_blocks
from calibrant.predictions import Predictions

__all__ = ["Folds", "example_brier", "example_nll", "make_folds", "out_of_fold"]

_CHUNK = 1 << 18
_BLOCKS = 1000


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold and the bootstrap block of each example; a block lies in one fold."""

    count: int
    fold: np.ndarray
    block: np.ndarray

    def in_order(self) -> Folds:
        """The same for examples that lie fold by fold, as :func:`out_of_fold` gives them."""
        order = np.argsort(self.fold, kind="stable")
        return Folds(self.count, self.fold[order], self.block[order])


def make_folds(predictions: Predictions, folds: int, seed: int) -> Folds:
    """Whole groups (sentences, images) are dealt to the folds in random order.

    Tokens of one sentence resemble each other: with some of them in the fitting part, the others
    would no longer be new to the map.
    """
    if isinstance(folds, bool) or int(folds) != folds or folds < 2:
        raise InputError(f"Cross-validation takes a whole number of folds ≥ 2, got {folds!r}.")
    block = assign_blocks(predictions, blocks=_BLOCKS)
    used = np.unique(block)
    if len(used) < 2:
        raise InputError(
            f"Comparing maps takes at least 2 independent examples to fit on, got {len(used)} "
            "(tokens of one sentence, pixels of one image count as one)."
        )
    count = min(folds, len(used))
    dealt = np.zeros(_BLOCKS, np.int64)
    dealt[np.random.default_rng(seed).permutation(used)] = np.arange(len(used)) % count
    return Folds(count, dealt[block], block)


def out_of_fold(calibrator: Calibrator, predictions: Predictions, folds: Folds) -> Predictions:
    """The same examples, fold by fold, each calibrated by the map fitted on the other folds."""
    parts = []
    for number in range(folds.count):
        held_out = folds.fold == number
        fitted = copy.deepcopy(calibrator)
        with warnings.catch_warnings():  # The fit on all examples says what there is to say.
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted.fit(predictions[~held_out])
        parts.append(fitted.transform(predictions[held_out]))
    if len({part.kind for part in parts}) > 1:  # A map that fell back leaves logits as they are.
        parts = [part.with_scores(part.probabilities(), "probabilities") for part in parts]
    return Predictions.concatenate(parts)


def example_nll(predictions: Predictions, floor: float = FLOOR) -> np.ndarray:
    """Return −log p_y of each example, in float64; a probability of 0 counts as ``floor``.

    It does so in fitting as well. The row is then divided by its sum.

    >>> p = Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    >>> example_nll(p, 0.25).round(4)
    array([0.6931, 1.6094])
    """
    return _each(lambda part: _nll(part, floor), predictions)


def example_brier(predictions: Predictions) -> np.ndarray:
    """Σ_k (p_k − 1[y = k])² of each example, in float64.

    >>> example_brier(Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0]], [0, 1]))
    array([0.5, 2. ])
    """
    return _each(_brier, predictions)


def _each(score: Callable[[Predictions], np.ndarray], predictions: Predictions) -> np.ndarray:
    rows = max(1, _CHUNK // predictions.classes)
    parts = [score(part.numpy()) for part in predictions.chunks(rows)]
    return np.concatenate(parts) if parts else np.empty(0)


def _brier(part: Predictions) -> np.ndarray:
    away = np.array(part.probabilities(), np.float64)
    away[np.arange(len(part)), part.labels] -= 1
    return np.asarray(np.einsum("nk,nk->n", away, away))


def _nll(part: Predictions, floor: float) -> np.ndarray:
    rows, scores = np.arange(len(part)), part.scores.astype(np.float64)
    if part.kind == "logits":
        return np.asarray(-log_softmax(scores)[rows, part.labels])
    zeros = scores <= 0
    total = np.where(zeros, floor, scores).sum(axis=1)
    chosen = np.where(zeros, floor, scores)[rows, part.labels]
    return np.asarray(-np.log(chosen / np.where(zeros.any(axis=1), total, 1.0)))
