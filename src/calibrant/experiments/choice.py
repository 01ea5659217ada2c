"""Which post-hoc map a finished run is put to use with: chosen on the validation split alone."""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.calibrators import CalibrationWarning, Calibrator, calibrator_class
from calibrant.comparison.cross_validation import Folds, make_folds, out_of_fold
from calibrant.errors import InputError
from calibrant.metrics import accumulate, ece
from calibrant.predictions import Predictions

__all__ = ["AUTO", "CANDIDATES", "choose_calibrator"]

AUTO = "auto"
# From simple to flexible; all keep every prediction, so that nothing but the confidence changes.
CANDIDATES = ("identity", "temperature", "type-temperature", "isotonic-top-label")
_FOLDS = 5


def choose_calibrator(name: str, valid: Predictions) -> Calibrator:
    """The map called ``name``, fitted on ``valid``; of ``"auto"`` the best of :data:`CANDIDATES`.

    Best is the least ECE of ``valid`` by cross-validation: each sentence is calibrated by a map
    that was fitted on others. Where there is but one sentence it is temperature.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 3000)
    >>> logits = 4 * (rng.normal(size=(3000, 3)) + np.eye(3)[labels])  # Four times too large.
    >>> valid = Predictions.from_logits(logits, labels)
    >>> choose_calibrator("auto", valid).name  # Temperature has an ECE of 0.027, this one 0.009.
    'isotonic-top-label'
    """
    if name == AUTO:
        try:
            folds = make_folds(valid, _FOLDS, seed=0)
        except InputError:
            name = "temperature"
        else:
            errors = {other: _error(other, valid, folds) for other in CANDIDATES}
            name = min(errors, key=errors.__getitem__)  # The first, the simplest, of equals.
    return calibrator_class(name)().fit(valid)


def _error(name: str, valid: Predictions, folds: Folds) -> float:
    with warnings.catch_warnings():  # The map that is chosen says it again.
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            mapped = out_of_fold(calibrator_class(name)(), valid, folds)
        except InputError:  # Types of entities, where the labels are no tags.
            return np.inf
    return float(ece(accumulate(mapped, classwise=False)))
