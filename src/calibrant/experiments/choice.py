"""Which post-hoc map a finished run is put to use with: chosen on the validation split alone."""

from __future__ import annotations

from calibrant.calibrators import CALIBRATORS, Calibrator, calibrator_class
from calibrant.comparison.selection import select_calibrator
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["AUTO", "CANDIDATES", "choose_calibrator"]

AUTO = "auto"
# All keep every prediction, so that nothing but the confidence changes, and need the scores alone.
CANDIDATES = tuple(
    name
    for name, row in CALIBRATORS.items()
    if row.calibrator.keeps_argmax and not row.calibrator.needs_groups
)


def choose_calibrator(name: str, valid: Predictions) -> Calibrator:
    """The map called ``name``, fitted on ``valid``; ``"auto"``: one of :data:`CANDIDATES`.

    The rule is that of :func:`calibrant.comparison.select_calibrator`. Where there is but one
    sentence the map is temperature.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(3000, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> choose_calibrator("auto", Predictions.from_logits(4 * logits, labels)).name
    'temperature'
    """
    if name != AUTO:
        return calibrator_class(name)().fit(valid)
    try:
        return select_calibrator(valid, CANDIDATES).calibrator
    except InputError:
        return calibrator_class("temperature")().fit(valid)
