"""Confidences of entities for new data without labels, as ``calibrant adapt`` writes them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.adapting.set_level import SetPoint, fit_line
from calibrant.calibrators.correction import BIAS, corrected
from calibrant.comparison.span_calibrator import SpanCalibrator, entity_words
from calibrant.errors import InputError
from calibrant.metrics import Confidences
from calibrant.predictions import Predictions
from calibrant.tasks.ner.entity_confidence import EntityConfidence, write_words
from calibrant.tasks.ner.finished_run import CORPUS, RAW, read_cutting, read_judges
from calibrant.tasks.run_files import read_labels
from calibrant.tasks.task import AdaptedRun

__all__ = ["adapt_entities"]


def adapt_entities(adapted: AdaptedRun) -> dict[str, Any]:
    """Write the calibrators of entities again, and return what was expected of them.

    Where tags may have changed (other class frequencies) they are learned again on the validation
    split. Else the share of right entities is expected from their mean confidence, over the same
    copies as for words, and each calibrator gets the shift that makes this its mean confidence.
    """
    folder, name = adapted.folder, RAW if adapted.raw else CORPUS
    judges = dict(read_judges(folder, read_labels(folder)))
    if BIAS in adapted.calibrator.learned():
        judges[name] = EntityConfidence.fit(adapted.calibrator, adapted.valid)
        found: dict[str, Any] = {"learned_again": True}
    else:
        judges[name], found = _shifted(judges[name], adapted)
    write_words(folder, judges, read_cutting(folder))
    return found


def _shifted(
    judge: EntityConfidence, adapted: AdaptedRun
) -> tuple[EntityConfidence, dict[str, Any]]:
    """Return the judge with shifted calibrators; without a line, a calibrator stays unchanged."""
    spans, evidence = dict(judge.spans), dict(judge.evidence)
    notes = dict[str, dict[str, Any]]()
    for reduction, made in judge.spans.items():
        try:
            spans[reduction], expected, shift = _shifted_calibrator(made, adapted)
        except InputError as error:
            notes[reduction] = {"unchanged": str(error)}
        else:
            bounds = zip(("value", "low", "high"), expected, strict=True)
            notes[reduction] = {"expected_precision": dict(bounds)}
            if made.reads_signals:  # Its evidence is what it makes of entities.
                moved = _moved(evidence[reduction].confidence, shift)
                evidence[reduction] = replace(evidence[reduction], confidence=moved)
    new = EntityConfidence(adapted.calibrator, spans, judge.chosen, evidence)
    return new, notes[judge.chosen]


def _shifted_calibrator(
    made: SpanCalibrator, adapted: AdaptedRun
) -> tuple[SpanCalibrator, tuple[float, float, float], float]:
    def entities(words: Predictions) -> Confidences:
        return made.transform(entity_words(adapted.calibrator, words))

    sets = {"validation": entities(adapted.valid)}
    sets |= {name: entities(copy) for name, copy in adapted.copies.items()}
    points = [
        SetPoint(name, len(found), float(found.confidence.mean()), float(found.correct.mean()))
        for name, found in sets.items()
        if len(found)
    ]
    new = entities(adapted.new).confidence
    if not len(new):
        raise InputError("The new data have no entities.")
    expected = fit_line(points).accuracy(float(new.mean()), adapted.level, len(new))
    shift = _shift_to(new, expected[0])
    result = SpanCalibrator(made.reduction_)
    result.reduction_ = made.reduction_
    result.calibrator_ = corrected(made.calibrator_, bias=np.array([0.0, shift]))
    return result, expected, shift


def _shift_to(confidence: np.ndarray, mean: float) -> float:
    """Return the shift of log-odds after which the confidences have this mean, by bisection."""
    low, high = -30.0, 30.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        below = float(_moved(confidence, middle).mean()) < mean
        low, high = (middle, high) if below else (low, middle)
    return math.fsum((low, high)) / 2


def _moved(confidence: np.ndarray, shift: float) -> np.ndarray:
    c = np.clip(confidence, 1e-9, 1 - 1e-9)
    return np.asarray(1 / (1 + np.exp(-(np.log(c / (1 - c)) + shift))))
