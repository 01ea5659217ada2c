"""Post-hoc calibrators: fit on validation predictions, apply to any, save to one small file."""

from __future__ import annotations

from typing import Any, NamedTuple

from calibrant.calibrators.base import CalibrationWarning, Calibrator
from calibrant.calibrators.bbq import BBQ
from calibrant.calibrators.grouped_temperature import (
    ClassTemperature,
    PositionTemperature,
    TypeTemperature,
)
from calibrant.calibrators.histogram import HistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.identity import Identity
from calibrant.calibrators.isotonic import (
    CentredIsotonic,
    Isotonic,
    TopLabelCentredIsotonic,
    TopLabelIsotonic,
)
from calibrant.calibrators.logistic import Beta, Platt
from calibrant.calibrators.matrix import Dirichlet, Matrix, Vector
from calibrant.calibrators.quadratic import Quadratic, TopLabelQuadratic
from calibrant.calibrators.saving import load_calibrator
from calibrant.calibrators.shift_aware import ShiftAware
from calibrant.calibrators.shrunk import ShrunkPlatt
from calibrant.calibrators.spline import Spline
from calibrant.calibrators.structured import StructuredMatrix, StructuredVector
from calibrant.calibrators.temperature import EnsembleTemperature, Temperature
from calibrant.calibrators.venn_abers import TopLabelVennAbers, VennAbers
from calibrant.errors import InputError, unknown_name
from calibrant.old_names import renamed

__all__ = [
    "BBQ",
    "CALIBRATORS",
    "Beta",
    "CalibrationWarning",
    "Calibrator",
    "CalibratorEntry",
    "CentredIsotonic",
    "ClassTemperature",
    "Dirichlet",
    "EnsembleTemperature",
    "HistogramBinning",
    "Identity",
    "Isotonic",
    "Matrix",
    "Platt",
    "PositionTemperature",
    "Quadratic",
    "ShiftAware",
    "ShrunkPlatt",
    "Spline",
    "StructuredMatrix",
    "StructuredVector",
    "Temperature",
    "TopLabelCentredIsotonic",
    "TopLabelHistogramBinning",
    "TopLabelIsotonic",
    "TopLabelQuadratic",
    "TopLabelVennAbers",
    "TypeTemperature",
    "Vector",
    "VennAbers",
    "calibrator_class",
    "load_calibrator",
]


class CalibratorEntry(NamedTuple):
    """One row of the table: the class, a line on what it learns, and the paper.

    >>> entry = CALIBRATORS["temperature"]
    >>> entry.calibrator(), entry.about
    (Temperature(), 'one number that divides all logits')
    """

    calibrator: type[Calibrator]
    about: str
    reference: str


# From the simplest to the most flexible: of equally good calibrators the first is chosen.
CALIBRATORS: dict[str, CalibratorEntry] = {
    "identity": CalibratorEntry(Identity, "nothing: the scores as they are", ""),
    "temperature": CalibratorEntry(
        Temperature, "one number that divides all logits", "Guo et al. 2017"
    ),
    "ensemble-temperature": CalibratorEntry(
        EnsembleTemperature, "temperature mixed with the original and uniform", "Zhang et al. 2020"
    ),
    "class-temperature": CalibratorEntry(
        ClassTemperature, "a temperature per predicted class", "after Guo et al. 2017"
    ),
    "type-temperature": CalibratorEntry(
        TypeTemperature, "NER: a temperature per entity type", "after Guo et al. 2017"
    ),
    "position-temperature": CalibratorEntry(
        PositionTemperature, "NER: a temperature per position in the sentence", "after Guo 2017"
    ),
    "quadratic-top-label": CalibratorEntry(
        TopLabelQuadratic, "a parabola of the confidence's log-odds", "Berta et al. 2024"
    ),
    "platt": CalibratorEntry(Platt, "a sigmoid per class, two numbers each", "Platt 1999"),
    "beta": CalibratorEntry(Beta, "a beta curve per class, three numbers each", "Kull et al. 2017"),
    "shrunk-platt": CalibratorEntry(
        ShrunkPlatt, "a sigmoid per label, rare ones like all others", "after Platt 1999"
    ),
    "quadratic": CalibratorEntry(
        Quadratic, "a parabola of the log-odds per class, three numbers each", "Berta et al. 2024"
    ),
    "structured-vector": CalibratorEntry(
        StructuredVector, "temperature, and a little of vector scaling", "Berta et al. 2026"
    ),
    "vector": CalibratorEntry(Vector, "a weight and an intercept per class", "Guo et al. 2017"),
    "spline": CalibratorEntry(Spline, "a smooth curve of the confidence", "Gupta et al. 2021"),
    "histogram-top-label": CalibratorEntry(
        TopLabelHistogramBinning, "the accuracy in each confidence bin", "Gupta, Ramdas 2022"
    ),
    "isotonic-top-label": CalibratorEntry(
        TopLabelIsotonic, "the best non-decreasing curve of the confidence", "Zadrozny, Elkan 2002"
    ),
    "centred-isotonic-top-label": CalibratorEntry(
        TopLabelCentredIsotonic, "the same without plateaus", "Oron, Flournoy 2017"
    ),
    "venn-abers-top-label": CalibratorEntry(
        TopLabelVennAbers, "between two isotonic curves of the confidence", "Vovk et al. 2015"
    ),
    "shift-aware": CalibratorEntry(
        ShiftAware, "the confidence and signals of damage, from corrupted copies", ""
    ),
    "histogram": CalibratorEntry(
        HistogramBinning, "the frequency in each bin, per class", "Zadrozny, Elkan 2001"
    ),
    "bbq": CalibratorEntry(BBQ, "an average of histograms, per class", "Naeini et al. 2015"),
    "isotonic": CalibratorEntry(
        Isotonic, "the best non-decreasing curve, per class", "Zadrozny, Elkan 2002"
    ),
    "centred-isotonic": CalibratorEntry(
        CentredIsotonic, "the same without plateaus, per class", "Oron, Flournoy 2017"
    ),
    "venn-abers": CalibratorEntry(
        VennAbers, "between two isotonic curves, per class", "Vovk et al. 2015"
    ),
    "structured-matrix": CalibratorEntry(
        StructuredMatrix, "temperature, and a little of matrix scaling", "Berta et al. 2026"
    ),
    "dirichlet": CalibratorEntry(
        Dirichlet, "a regularised matrix of the log-probabilities", "Kull et al. 2019"
    ),
    "matrix": CalibratorEntry(Matrix, "a regularised matrix of the logits", "Guo et al. 2017"),
}


def calibrator_class(name: str) -> type[Calibrator]:
    """Return the class of a registered name.

    >>> calibrator_class("temperature")().name
    'temperature'
    """
    if not isinstance(name, str):
        raise InputError(f"Expected the name of a calibrator, such as 'temperature', got {name}.")
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name].calibrator


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
