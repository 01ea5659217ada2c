"""Score one calibrator on VALID by cross-validation, fit it there, and evaluate it on TEST."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator, calibrator_class
from calibrant.calibrators.likelihood import probability_floor
from calibrant.claims import Claims
from calibrant.comparison.cross_validation import (
    Folds,
    brier_if_wrong,
    example_brier,
    example_nll,
    out_of_fold,
)
from calibrant.comparison.record import Row
from calibrant.metrics import (
    accumulate,
    accuracy,
    assign_blocks,
    bootstrap_interval,
    confidence_steps,
    ece,
)
from calibrant.metrics.blocks import dependent_group
from calibrant.metrics.measure import measure_sources
from calibrant.predictions import Predictions

__all__ = ["Candidate", "calibration_part", "evaluate", "fit_candidate"]

_BLOCKS = 1000
_ROUNDING = 1e-12  # Of a share of examples.
_RECALIBRATIONS = ("temperature", "isotonic-top-label")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A calibrator fitted on all of VALID, and VALID's examples calibrated out of fold.

    ``nll``, ``brier`` and ``brier_if_wrong`` (were another class right) have an entry per example,
    in the order of ``Folds.in_order``;
    ``calibration`` is the part of the mean NLL that recalibration would still take away;
    ``weights`` are the sample weights of the examples, if they have any.
    """

    calibrator: Calibrator
    nll: np.ndarray
    brier: np.ndarray
    ece: float
    calibration: float | None
    fit_seconds: float
    weights: np.ndarray | None = None
    brier_if_wrong: np.ndarray = field(default_factory=lambda: np.empty(0))


def fit_candidate(
    calibrator: Calibrator, valid: Predictions | Claims, folds: Folds, *, split: bool = True
) -> Candidate:
    """Cross-validate a calibrator, then fit it on all of VALID.

    ``split`` also splits its NLL (:func:`calibration_part`), which takes ten more fits.
    """
    held_out = out_of_fold(calibrator, valid, folds)
    floor = probability_floor(valid.binary() if isinstance(valid, Claims) else valid)
    nll, brier = example_nll(held_out, floor), example_brier(held_out)
    calibration = calibration_part(held_out, nll, folds.in_order()) if split else None
    with warnings.catch_warnings():  # Kept with the calibrator, and shown as notes.
        warnings.simplefilter("ignore", CalibrationWarning)
        start = time.perf_counter()
        calibrator.fit(valid)
        seconds = time.perf_counter() - start
    about = (float(ece(held_out)), calibration, seconds, held_out.weights)
    return Candidate(calibrator, nll, brier, *about, brier_if_wrong(held_out))


def calibration_part(predictions: Predictions | Claims, nll: np.ndarray, folds: Folds) -> float:
    """Return how much recalibration lowers the mean NLL: its calibration part, not its refinement.

    A proper score is the sum of both (Bröcker 2009). The refinement is estimated by the NLL after
    the better of two calibrators, one simple and one free, in cross-validation (Berta et al. 2025).
    Both are one curve for all classes. A calibrator with numbers for each class, such as
    ``vector``, can lower this estimate.
    """
    again = [out_of_fold(calibrator_class(name)(), predictions, folds) for name in _RECALIBRATIONS]
    after = [np.average(example_nll(mapped), weights=mapped.weights) for mapped in again]
    return max(0.0, float(np.average(nll, weights=predictions.weights) - min(after)))


def evaluate(
    candidate: Candidate, test: Predictions | Claims, *, bins: int, bootstrap: int, seed: int
) -> Row:
    """Return the row of one calibrator: what its scores on TEST are worth."""
    mapped = candidate.calibrator.transform(test)
    block = assign_blocks(test, blocks=_BLOCKS)
    blocks = accumulate(mapped, bins, classwise=False, block=block, blocks=_BLOCKS)
    # No metric here reads the tables per class; with many classes they are most of the work.
    narrow = blocks.without_classes()
    alone = dependent_group(test) is None
    found = bootstrap and bootstrap_interval(
        ece, narrow, replicates=bootstrap, seed=seed, independent=alone
    )
    low, high = found or (None, None)
    sources = {"state": narrow.total(), "confidences": confidence_steps(mapped)}
    metrics = measure_sources(sources, ["classes"], bins)
    return Row(
        name=candidate.calibrator.name,
        valid_nll=float(np.average(candidate.nll, weights=candidate.weights)),
        valid_brier=float(np.average(candidate.brier, weights=candidate.weights)),
        valid_ece=candidate.ece,
        valid_calibration=candidate.calibration,
        metrics=metrics,
        ece_low=low,
        ece_high=high,
        accuracy_change=_change(metrics["accuracy"], accuracy(test)),
        fit_seconds=candidate.fit_seconds,
        notes=tuple(candidate.calibrator.fitted_on_["warnings"]),
    )


def _change(after: float, before: float) -> float:
    """Return the difference; sums of weights in another order differ in the last places."""
    change = after - before
    return 0.0 if abs(change) < _ROUNDING else change
