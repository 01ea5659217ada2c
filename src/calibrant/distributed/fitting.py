"""Fits of tables in partitions: the same parameters as in memory, from sums of each part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant.calibrators import (
    CALIBRATORS,
    CalibrationWarning,
    Calibrator,
    Identity,
    Temperature,
    calibrator_class,
)
from calibrant.calibrators.backend import FLOOR
from calibrant.calibrators.base import Fit, zeros_warning
from calibrant.calibrators.checks import check_weights, needs_all_classes
from calibrant.calibrators.faultless import most_confidence
from calibrant.calibrators.likelihood import floor_of, lowered_floor
from calibrant.calibrators.scalar import OneVsRest, TopLabel
from calibrant.comparison.under_shift import OnlyCopiesError
from calibrant.distributed.engine import Engine
from calibrant.distributed.engines import open_dataset
from calibrant.distributed.passes import Ask, Passes
from calibrant.distributed.questions import After
from calibrant.distributed.reading import reader_of
from calibrant.distributed.solvers import FORMS, fit_curves, fit_rows, fit_temperature
from calibrant.distributed.views import NOT_ROUNDED, Folded, Survey, View
from calibrant.encoding import check_one_reading
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns
from calibrant.files.format import FileKind
from calibrant.labels import MISSING_TEXTS
from calibrant.predictions import Kind, Predictions

__all__ = ["Known", "fit", "fit_routine", "is_distributed", "survey"]

_SAMPLE = 20_000  # Rows that give the start of a search and its curvature.
_MOST_SCORES = 1 << 21


def fit(
    dataset: Any,
    calibrator: Calibrator | str,
    *,
    engine: Engine | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    skip_damaged: bool = False,
) -> Calibrator:
    """Fit a calibrator on a table in partitions, and return it.

    ``dataset`` and ``engine`` are as in :func:`calibrant.distributed.audit`. Temperature, vector
    and matrix scaling and their relatives take a few passes, one per step of their search, and end
    at the same optimum as in memory. Calibrators of one number per class (Platt, beta, histogram,
    isotonic, …) take one pass, which counts events in 65,536 bins of log-odds per class; Platt and
    beta agree to 1e-6, steps and curves lie where their bins do. Another pass measures the result.
    Calibrators that need all rows at once are refused. Corrupted copies, with a name in the column
    ``corruption``, are left out and counted, unless there is nothing else.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     p[:2].write(f"{folder}/monday.parquet")
    ...     p[2:].write(f"{folder}/tuesday.parquet")
    ...     fitted = fit(f"{folder}/*.parquet", "temperature")
    >>> round(fitted.temperature_, 4)  # As in memory.
    1.8205
    """
    made = calibrator_class(calibrator)() if isinstance(calibrator, str) else calibrator
    check_distributed(made)
    opened = open_dataset(dataset, engine, skip_damaged=skip_damaged)
    reader = reader_of(opened.dataset, columns, kind, opened.schemas)
    passes = Passes(opened.dataset, reader, clean=True)
    about = Source.of(passes)

    def routine(ask: Ask) -> Calibrator:
        return fit_routine(ask, made, survey(ask, about))

    try:
        fitted = passes.one(routine)
    except OnlyCopiesError:  # Then damaged data are what it is for.
        passes.clean = False
        fitted = passes.one(routine)
    fitted.fitted_on_["passes"] = passes.count
    fitted.fitted_on_ |= replace(passes.left_out, files=opened.damaged).described()
    for text in fitted.fitted_on_["warnings"]:
        warnings.warn(text, CalibrationWarning, stacklevel=2)
    return fitted


def is_distributed(calibrator: Calibrator) -> bool:
    """Whether the calibrator can be fitted from sums of parts."""
    return type(calibrator) in (Identity, Temperature, *FORMS) or (
        isinstance(calibrator, (OneVsRest, TopLabel))
    )


def check_distributed(calibrator: Calibrator) -> None:
    """Refuse a calibrator that needs all rows at once."""
    if not is_distributed(calibrator):
        known = [n for n, row in CALIBRATORS.items() if is_distributed(row.calibrator())]
        raise InputError(
            f"{calibrator.name} needs all rows at once, so it is not fitted on a cluster; fit it "
            f"on a part of the data, or take one of {', '.join(known)}."
        )


@dataclass(frozen=True)
class Source:
    """What is known of a table before any row is read."""

    rows: int
    kind: str
    names: tuple[str, ...] | None
    width: int

    @classmethod
    def of(cls, passes: Passes) -> Source:
        """Return what the schema and the number of rows say."""
        reader = passes.reader
        return cls(passes.rows, reader.layout.kind, reader.names, reader.width)

    @property
    def examples(self) -> int:
        """How many examples the rows hold at most: with many labels, one for each."""
        return self.rows * (self.width if self.kind == "multi-label" else 1)

    @property
    def claims(self) -> bool:
        """Whether each row has one confidence, not the scores of all classes."""
        return self.kind in ("top-label", "multi-label")


@dataclass(frozen=True, eq=False)
class Known:
    """What a survey found: sizes, a sample of rows, and whether every prediction is right."""

    source: Source
    folded: Folded | None
    n: int
    ignored: int
    copies: int
    size: float
    zero_labels: int
    zeros: bool
    smallest: float
    digits: int
    faultless: bool
    one_label: bool
    decided: tuple[float, float]
    sample: Predictions

    @property
    def certain(self) -> bool:
        """Whether no row speaks against a confidence of 1."""
        return self.one_label if self.source.claims else self.faultless

    def floor(self, logarithmic: bool) -> float:
        """Return what replaces a probability of 0, as a fit in memory finds it."""
        if self.sample.kind == "logits":
            return FLOOR
        floor = floor_of(self.smallest, self.zeros, self.digits)
        if not logarithmic or floor == FLOOR or not self.zeros:
            return floor
        return lowered_floor(self.sample, floor)


def survey(ask: Ask, source: Source, folded: Folded | None = None) -> Known:
    """Ask for what every fit must know first."""
    classes = 2 if source.claims else source.width
    wanted = min(max(_SAMPLE, 200 * classes), max(2000, _MOST_SCORES // classes))
    found = ask(Survey(source.examples, wanted, folded))
    if not found or not found["sum:n"][0]:
        if found and found["sum:copies"][0] and folded is None:
            raise OnlyCopiesError
        why = "every row is ignored or without a label"
        if folded is not None:
            why = "one fold has all rows; tokens of one sentence, pixels of one image stay together"
        raise InputError(f"Nothing to fit on: {why}.")
    missing, classes_read = (list(compress(MISSING_TEXTS, r)) for r in found["max:texts"])
    check_one_reading(missing, classes_read)
    n, ignored, zero_labels, zeros = (int(v) for v in found["sum:n"])
    if len(found["join:labels"]) < min(n, wanted) / 4:  # Most rows have no label.
        found = ask(Survey(n, wanted, folded))
    digits = int(found["max:digits"][0])
    kind: Kind = "logits" if source.kind == "logits" else "probabilities"
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
    weights = found["join:weights"]
    own = None if (weights == 1).all() else weights
    sample = make(found["join:scores"], found["join:labels"], weights=own)
    return Known(
        source, folded, n, ignored, int(found["sum:copies"][0]), float(found["sum:size"][0]),
        zero_labels, bool(zeros),
        float(found["min:smallest"][0]), 0 if digits == NOT_ROUNDED else digits,
        not int(found["sum:wrong"][0]), bool((found["sum:labels"] > 0).sum() == 1),
        (float(found["sum:decided"][0]), float(found["sum:decided"][1])), sample,
    )  # fmt: skip


def fit_routine(ask: Ask, calibrator: Calibrator, known: Known) -> Calibrator:
    """Fit a copy of a calibrator on the rows that were surveyed; the rounds go through ``ask``."""
    made, caught = deepcopy(calibrator), list[str]()
    if known.source.claims and not made.takes_claims:
        raise needs_all_classes(made.name, known.source.kind)
    check_weights(made.name, made.takes_weights, known.sample)
    made.claims_ = 1.0 if known.source.claims else 0.0
    floor = known.floor(made.takes == "logits" and made.changes_scores)
    counted = known.floor(logarithmic=False)
    if known.zero_labels:
        caught.append(zeros_warning(known.zero_labels, counted))
    found = _found(ask, made, known, View(made.takes, floor, known.folded), caught.append)
    made.take_fit(found, floor, known.sample.classes, known.source.names)
    after = ask(After(made, known.folded, counted, known.certain))
    size, *nll = (float(v) for v in after["sum:nll"])
    doubt = after.get("sum:doubt", np.zeros(3))
    nll_before, nll_after = nll[0] / size, nll[1 if made.changes_scores else 0] / size
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", CalibrationWarning)
        kept = made.judge(
            found, (nll_before, nll_after), known.size, counted, lambda: _too_much(known, doubt)
        )
    made.fitted_on_ = {
        "n": known.n,
        "ignored": known.ignored,
        **({"copies": known.copies} if known.copies else {}),
        "kind": known.source.kind,
        "nll_before": nll_before,
        "nll_after": kept,
        "version": __version__,
        **(found.details or {}),
        "warnings": [*caught, *(str(w.message) for w in raised)],
    }
    return made


def _found(
    ask: Ask, made: Calibrator, known: Known, view: View, warn: Callable[[str], None]
) -> Fit:
    if isinstance(made, Identity):
        return Fit({})
    if isinstance(made, Temperature):
        return fit_temperature(ask, view, known, warn, claims=known.source.claims)
    if isinstance(made, (OneVsRest, TopLabel)):
        return fit_curves(ask, made, view, known)
    return fit_rows(ask, made, view, known, warn)


def _too_much(known: Known, doubt: np.ndarray) -> bool:
    """Whether a calibrator goes beyond what a sample without a mistake supports."""
    before, after, size = doubt
    if not known.certain or not size:
        return False
    least = min(before / size, 1 - most_confidence(size))
    return bool(after / size < least * (1 - 1e-4))
