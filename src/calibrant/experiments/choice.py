"""Which post-hoc map a finished run is put to use with: chosen on the validation split alone."""

from __future__ import annotations

import warnings

from calibrant.calibrators import CalibrationWarning, Calibrator, calibrator_class
from calibrant.comparison.cross_validation import Folds, make_folds, out_of_fold
from calibrant.errors import InputError
from calibrant.metrics import CalibrationState, accumulate, chance_ece, ece
from calibrant.predictions import Predictions

__all__ = ["AUTO", "CANDIDATES", "choose_calibrator"]

AUTO = "auto"
# From simple to flexible; all keep every prediction, so that nothing but the confidence changes.
CANDIDATES = ("identity", "temperature", "type-temperature", "isotonic-top-label")
_FOLDS = 5


def choose_calibrator(name: str, valid: Predictions) -> Calibrator:
    """The map called ``name``, fitted on ``valid``; ``"auto"``: one of :data:`CANDIDATES`.

    Each is judged by the ECE of ``valid`` in cross-validation, each sentence calibrated by a map
    that was fitted on others. The simplest is taken whose ECE a perfectly calibrated model of this
    size might show too (95 %), and if there is none, the one with the least. Where there is but one
    sentence it is temperature.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(3000, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> choose_calibrator("auto", Predictions.from_logits(4 * logits, labels)).name
    'temperature'
    """
    if name == AUTO:
        try:
            folds = make_folds(valid, _FOLDS, seed=0)
        except InputError:
            name = "temperature"
        else:
            name = _chosen(valid, folds)
    return calibrator_class(name)().fit(valid)


def _chosen(valid: Predictions, folds: Folds) -> str:
    errors: dict[str, float] = {}
    for name in CANDIDATES:
        state = _cross_validated(name, valid, folds)
        if state is None:
            continue
        errors[name] = float(ece(state))
        if errors[name] <= chance_ece(state)[1]:
            return name
    return min(errors, key=errors.__getitem__)


def _cross_validated(name: str, valid: Predictions, folds: Folds) -> CalibrationState | None:
    with warnings.catch_warnings():  # The map that is chosen says it again.
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            mapped = out_of_fold(calibrator_class(name)(), valid, folds)
        except InputError:  # Types of entities, where the labels are no tags.
            return None
    return accumulate(mapped, classwise=False)
