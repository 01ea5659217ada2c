"""One map in a comparison: fitted on VALID, scored there by cross-validation and on TEST once."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator, calibrator_class
from calibrant.comparison.cross_validation import Folds, out_of_fold_nll
from calibrant.comparison.record import Row
from calibrant.metrics import (
    accumulate,
    accuracy,
    adaptive_ece,
    assign_blocks,
    brier,
    ece,
    interval,
    nll,
)
from calibrant.predictions import Predictions

__all__ = ["Candidate", "evaluate", "fit_candidate"]

_BLOCKS = 1000
_PER_CLASS = ("label_count", "predicted_count", "predicted_confidence", "predicted_correct")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A map fitted on all of VALID, and each VALID example's NLL under maps fitted without it."""

    calibrator: Calibrator
    valid_nll: np.ndarray
    fit_seconds: float


def fit_candidate(name: str, valid: Predictions, folds: Folds) -> Candidate:
    """Cross-validate the map called ``name``, then fit it on all of VALID."""
    calibrator = calibrator_class(name)()
    valid_nll = out_of_fold_nll(calibrator, valid, folds)
    with warnings.catch_warnings():  # Kept with the map, and shown as notes.
        warnings.simplefilter("ignore", CalibrationWarning)
        start = time.perf_counter()
        calibrator.fit(valid)
        seconds = time.perf_counter() - start
    return Candidate(calibrator, valid_nll, seconds)


def evaluate(
    candidate: Candidate, test: Predictions, *, bins: int, bootstrap: int, seed: int
) -> Row:
    """The row of one map: what its scores on TEST are worth."""
    mapped = candidate.calibrator.transform(test)
    block = assign_blocks(test, blocks=_BLOCKS)
    blocks = accumulate(mapped, bins, classwise=False, block=block, blocks=_BLOCKS)
    state = blocks.total()
    # The ECE does not read the tables per class; with many classes they are most of the work.
    narrow = replace(blocks, **{name: getattr(blocks, name)[:, :0] for name in _PER_CLASS})
    low, high = interval(ece, narrow, replicates=bootstrap, seed=seed) or (None, None)
    return Row(
        name=candidate.calibrator.name,
        valid_nll=float(candidate.valid_nll.mean()),
        nll=nll(state),
        brier=brier(state),
        ece=ece(state),
        ece_low=low,
        ece_high=high,
        adaptive_ece=adaptive_ece(mapped, bins),
        accuracy=accuracy(state),
        accuracy_change=accuracy(state) - accuracy(test),
        fit_seconds=candidate.fit_seconds,
        notes=tuple(candidate.calibrator.fitted_on_["warnings"]),
    )
