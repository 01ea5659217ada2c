"""Decide whether a calibrator that learns from corrupted copies should replace the chosen one."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator
from calibrant.calibrators.likelihood import probability_floor
from calibrant.calibrators.shift_aware import ShiftAware
from calibrant.calibrators.signals import CORRUPTION
from calibrant.claims import Claims
from calibrant.comparison.candidates import Candidate
from calibrant.comparison.cross_validation import Folds, example_brier, example_nll
from calibrant.comparison.recommendation import Differences, Interval
from calibrant.errors import InputError
from calibrant.metrics import ece
from calibrant.metrics.blocks import dependent_group
from calibrant.predictions import Kind, Predictions

__all__ = [
    "OnlyCopiesError",
    "UnderShift",
    "copies_of",
    "is_copy",
    "judge_under_shift",
    "out_of_fold_with_copies",
    "predicted_copies",
    "with_corruption",
    "without_copies",
]

_P: Kind = "probabilities"
_ROWS = 1 << 15  # Examples that a calibrator of cross-validation is fitted on.
_COPIES = 1 << 17  # Rows of copies that cross-validation looks at.
# More saves clean data, and costs some honesty under damage.
_CLEAN_WEIGHTS = (0.7, 1.5, 3.0, 6.0, 12.0)


class OnlyCopiesError(InputError):
    """Every row of VALID is a corrupted copy."""

    def __init__(self) -> None:
        super().__init__(
            "Every row of VALID has a corruption; the rows of validation itself need an empty text "
            f"in the group '{CORRUPTION}'."
        )


class UnderShift(NamedTuple):
    """The evidence for a calibrator fitted on corrupted copies too, and the calibrator itself.

    ``held_out`` are the clean rows, each calibrated by a fit without it.
    """

    candidate: Candidate | None  # None: the ordinary calibrator stays.
    reason: str
    held_out: Predictions | Claims | None = None


def with_corruption(predictions: Predictions, name: str) -> Predictions:
    """Return predictions with the name of their corruption, "" without one.

    >>> p = Predictions.from_logits([[1.0, 0.0]], [0])
    >>> with_corruption(p, "typos-3").groups
    {'corruption': array(['typos-3'], dtype='<U7')}
    """
    groups = {**predictions.groups, CORRUPTION: np.full(len(predictions), name)}
    return replace(predictions, groups=groups)


def predicted_copies(
    predict: Callable[[Any], Predictions], parts: Iterable[tuple[str, Any]]
) -> Predictions | None:
    """Predict corrupted copies, each with the name of its corruption, one after the other."""
    made = [with_corruption(predict(part), name) for name, part in parts]
    return Predictions.concatenate(made) if made else None


def copies_of(
    valid: Predictions | Claims,
) -> tuple[Predictions | Claims, Predictions | Claims | None]:
    """Return the clean rows of VALID, and the corrupted copies where there are any."""
    if CORRUPTION not in valid.groups:
        return valid, None
    copied = is_copy(valid)
    if copied.all():
        raise OnlyCopiesError
    return valid[~copied], valid[copied] if copied.any() else None


def is_copy(valid: Predictions | Claims) -> np.ndarray:
    """Return which rows are corrupted copies: those with a name in the group ``corruption``.

    >>> p = Predictions.from_logits([[1.0, 0.0]] * 2, [0, 1], groups={"corruption": ["", "ocr-3"]})
    >>> is_copy(p)
    array([False,  True])
    """
    if CORRUPTION not in valid.groups:
        return np.zeros(len(valid), bool)
    return np.asarray(valid.groups[CORRUPTION].astype(str) != "")


def without_copies(
    valid: Predictions | Claims,
) -> tuple[Predictions | Claims, Predictions | Claims | None]:
    """Return :func:`copies_of`; where every row has a corruption, damaged data are all there is."""
    return (valid, None) if is_copy(valid).all() else copies_of(valid)


def judge_under_shift(
    ordinary: Calibrator,
    clean: Predictions | Claims,
    copies: Predictions | Claims,
    folds: Folds,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
) -> UnderShift:
    """Compare the shift-aware calibrator with the ordinary one, on unseen kinds of damage.

    In each fold, both predict its clean rows and its copies of one kind of corruption; the
    shift-aware calibrator is fitted on the other folds without that kind, the ordinary one on their
    clean rows. It takes over if its log-loss is significantly lower on the copies and not
    significantly higher on clean rows (paired bootstrap). If it is higher, clean rows get more
    weight, up to a limit.
    """
    every, origin, few = copies, _origins(clean, copies), _fewer(copies)
    copies, origin = copies[few], origin[few]
    kinds = np.array([name.rpartition("-")[0] or name for name in copies.groups[CORRUPTION]])
    found = np.unique(kinds)
    if len(found) < 2:
        return UnderShift(None, "Copies of one kind alone cannot show what an unseen kind does.")
    reason = ""
    for weight in _CLEAN_WEIGHTS:
        made = _Trial(ordinary, clean, copies, folds, origin, kinds, found, weight)
        gains = {name: made.gain(name, bootstrap, seed) for name in ("clean", "damaged")}
        verdict = f"{gains['damaged']} on unseen damage and {gains['clean']} on clean data"
        if gains["damaged"].low <= 0:
            return UnderShift(None, f"shift-aware lowers the NLL by {verdict}: it is not chosen.")
        if gains["clean"].high >= 0:
            whole = _together(clean, every)
            start = time.perf_counter()
            calibrator = _quiet_fit(ShiftAware(clean_weight=weight), whole)
            candidate = made.candidate(calibrator, time.perf_counter() - start)
            chosen = f"shift-aware lowers the NLL of {ordinary.name} by {verdict}."
            return UnderShift(candidate, chosen, made.held_out[np.argsort(made.rows)])
        reason = f"shift-aware lowers the NLL by {verdict}, where it is worse: it is not chosen."
    return UnderShift(None, reason)


class _Trial:
    """The losses of both calibrators on held-out rows, clean and damaged."""

    def __init__(
        self,
        ordinary: Calibrator,
        clean: Predictions | Claims,
        copies: Predictions | Claims,
        folds: Folds,
        origin: np.ndarray,
        kinds: np.ndarray,
        found: np.ndarray,
        weight: float,
    ) -> None:
        fold = folds.fold[origin]
        floor = probability_floor(clean.binary() if isinstance(clean, Claims) else clean)
        parts: Mapping[str, list[tuple[np.ndarray, np.ndarray]]] = {"clean": [], "damaged": []}
        held_out: list[Predictions | Claims] = []
        for number in range(folds.count):
            kind = found[number % len(found)]
            inside = folds.fold == number
            held = (fold == number) & (kinds == kind)
            seen = copies[(fold != number) & (kinds != kind)]
            calibrators = (
                _quiet_fit(copy.deepcopy(ordinary), clean[~inside]),
                _quiet_fit(
                    ShiftAware(clean_weight=weight, rows=_ROWS),
                    _together(clean[~inside], seen),
                ),
            )
            # Copies of one row at several strengths depend on each other: they share its block.
            for name, part, block in (
                ("clean", clean[inside], folds.block[inside]),
                ("damaged", copies[held], folds.block[origin[held]]),
            ):
                mapped = [calibrator.transform(part) for calibrator in calibrators]
                losses = np.stack([example_nll(new, floor) for new in mapped])
                parts[name].append((losses, block))
                if name == "clean":
                    held_out.append(_as_probabilities(mapped[1]))
        self._parts, self.held_out = parts, _together(*held_out)
        self.rows = np.argsort(folds.fold, kind="stable")  # Which rows these are.

    def candidate(self, calibrator: Calibrator, seconds: float) -> Candidate:
        """Return the fitted calibrator with its losses on the clean rows, each held out once."""
        new = self.held_out
        nll = np.concatenate([loss[1] for loss, _ in self._parts["clean"]])
        return Candidate(calibrator, nll, example_brier(new), float(ece(new)), None, seconds)

    def gain(self, name: str, bootstrap: int, seed: int) -> Interval:
        """By how much the shift-aware calibrator lowers the mean NLL of the ordinary one."""
        losses = np.concatenate([loss for loss, _ in self._parts[name]], axis=1)
        block = np.concatenate([block for _, block in self._parts[name]])
        return Differences(losses, block, bootstrap, seed).gain(over=0, of=1)


def _together(*parts: Any) -> Any:
    return type(parts[0]).concatenate(parts)


def _as_probabilities(examples: Any) -> Any:
    """Return predictions with probabilities: a calibrator that fell back keeps logits."""
    if isinstance(examples, Claims):
        return examples
    return examples.with_scores(examples.probabilities(), _P)


def _fewer(copies: Any) -> Any:
    """Return which copies to look at: of every so-manieth sentence (or row), if they are many."""
    stride = -(-len(copies) // _COPIES)
    group = dependent_group(copies)
    if stride == 1 or group is None:
        return slice(None, None, stride)
    return np.unique(copies.groups[group], return_inverse=True)[1] % stride == 0


def out_of_fold_with_copies(
    calibrator: Calibrator, clean: Predictions, copies: Predictions, folds: Folds
) -> Predictions:
    """Return the clean rows fold by fold, calibrated by a fit on the other rows and copies."""
    clean, fold = with_corruption(clean, ""), folds.fold[_origins(clean, copies)]
    parts = []
    for number in range(folds.count):
        inside = folds.fold == number
        whole = _together(clean[~inside], copies[fold != number])
        fitted = _quiet_fit(copy.deepcopy(calibrator), whole)
        parts.append(_as_probabilities(fitted.transform(clean[inside])))
    found: Predictions = _together(*parts)
    return found


def _origins(clean: Predictions | Claims, copies: Predictions | Claims) -> np.ndarray:
    """Return the clean row that each copy is of, or the first one of its sentence."""
    group = dependent_group(clean)
    if group is not None:
        values, first = np.unique(clean.groups[group], return_index=True)
        place = np.searchsorted(values, copies.groups[group]).clip(0, len(values) - 1)
        return np.asarray(first[place])
    origin = np.empty(len(copies), np.int64)
    for name in np.unique(copies.groups[CORRUPTION]):
        rows = np.flatnonzero(copies.groups[CORRUPTION] == name)
        origin[rows] = np.arange(len(rows)) % len(clean)
    return origin


def _quiet_fit(calibrator: Calibrator, predictions: Predictions | Claims) -> Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrator.fit(predictions)
