"""Post-hoc calibrators: fit on validation predictions, apply to any, save to one small file."""

from __future__ import annotations

from typing import NamedTuple

from calibrant.calibrators.base import CalibrationWarning, Calibrator
from calibrant.calibrators.identity import Identity
from calibrant.calibrators.saving import load
from calibrant.calibrators.temperature import Temperature
from calibrant.errors import unknown_name

__all__ = [
    "CALIBRATORS",
    "CalibrationWarning",
    "Calibrator",
    "Entry",
    "Identity",
    "Temperature",
    "calibrator_class",
    "load",
]


class Entry(NamedTuple):
    """One row of the table: the class, what it learns in a line, and the paper."""

    calibrator: type[Calibrator]
    about: str
    reference: str


# From the simplest to the most flexible: of maps that do equally well the first is taken.
CALIBRATORS: dict[str, Entry] = {
    "identity": Entry(Identity, "nothing: the scores as they are", ""),
    "temperature": Entry(Temperature, "one number that divides all logits", "Guo et al. 2017"),
}


def calibrator_class(name: str) -> type[Calibrator]:
    """The class of a registered name.

    >>> calibrator_class("temperature")().name
    'temperature'
    """
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name].calibrator
