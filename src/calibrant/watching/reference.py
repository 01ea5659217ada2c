"""What a stream is compared with: labelled predictions on which the confidences are honest."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.calibrators import CalibrationWarning, Calibrator
from calibrant.claims import Claims
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.span_calibrator import new_entity_words
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.metrics.tag_f1 import entity_counts
from calibrant.metrics.tags import TagSet, is_bio
from calibrant.predictions import Predictions
from calibrant.watching.drift_test import log_odds_place
from calibrant.watching.shown_classes import drift_classes, shown_classes, shown_names
from calibrant.watching.true_entities import OpeningRates, learn_rates

__all__ = [
    "PLACES", "EntityReference", "Reference", "atc_threshold", "drawn_rows", "gap_spread",
    "unit_means", "unit_starts",
]  # fmt: skip

PLACES = int(log_odds_place(np.array([1.0]))[0]) + 1
_BINS = 10  # Of confidences, equally full on the reference.


@dataclass(frozen=True, eq=False)
class EntityReference:
    """How entities are judged: their tags, their confidence, and how many a stream has.

    ``variance`` is that of the mean of confidence − correct over the predicted ones; ``true`` is
    the number of true ones.
    """

    tags: TagSet
    confidence: SpanCalibrator
    rates: OpeningRates
    f1: float
    variance: float
    true: int


@dataclass(frozen=True, eq=False)
class Reference:
    """Numbers of the reference.

    ``gap`` is mean confidence − accuracy, with ``variance``. ``inflation`` says by how much more
    sums over units vary than if their rows were independent. ``threshold`` is that of ATC.
    ``taught`` has the confidences of the rows, which show how well they determine a calibrator. Of
    places of confidences, and of classes, ``counts`` and ``shown`` have the numbers of rows. Tests
    of drift bet on ``unit_places`` and on ``unit_classes``, which are below ``class_places``.
    """

    n: int
    accuracy: float
    confidence: float
    variance: float
    inflation: float
    threshold: float
    taught: np.ndarray
    label_names: tuple[str, ...]
    counts: np.ndarray
    shown: np.ndarray
    unit_places: np.ndarray
    unit_classes: np.ndarray
    class_places: int
    entities: EntityReference | None

    @property
    def gap(self) -> float:
        """Mean confidence − accuracy."""
        return self.confidence - self.accuracy

    @classmethod
    def of(
        cls,
        raw: Predictions | Claims,
        calibrator: Calibrator | None,
        by: str | None,
        seed: int,
        entities: SpanCalibrator | None = None,
    ) -> Reference:
        """Return the numbers of labelled predictions, under the calibrators of the stream."""
        if not len(raw):
            raise InputError("The reference has no labelled rows.")
        honest = raw if calibrator is None else calibrator.transform(raw)
        confidence, _, correct = top_label(honest)
        given = top_label(raw)[0]
        names = shown_names(raw)
        predicted, classes = shown_classes(raw, names)
        starts = unit_starts(raw, by)
        variance, inflation = gap_spread(confidence, correct, starts)
        place = log_odds_place(given)
        drawn = drawn_rows(starts, len(raw), np.random.default_rng(seed))
        return cls(
            len(raw),
            float(correct.mean()),
            float(confidence.mean()),
            variance,
            inflation,
            atc_threshold(confidence, correct),
            confidence,
            names,
            np.bincount(place, minlength=PLACES),
            np.bincount(predicted, minlength=classes),
            log_odds_place(unit_means(given, starts)),
            *drift_classes(raw[drawn]),
            _entities(raw, honest, calibrator, entities),
        )

    def confidence_drift(self, places: np.ndarray) -> float:
        """Return the distance between the confidences of a chunk and those of the reference."""
        share = np.cumsum(self.counts) / self.counts.sum()
        bins = np.minimum((share - self.counts / self.counts.sum() / 2) * _BINS, _BINS - 1)
        cells = bins.astype(np.int64)
        return _distance(*(np.bincount(cells, counts) for counts in (places, self.counts)))

    def class_drift(self, shown: np.ndarray) -> float:
        """Return the distance between the predicted classes of a chunk and of the reference."""
        return _distance(shown, self.shown) if self.label_names else math.nan


def _distance(these: np.ndarray, those: np.ndarray) -> float:
    """Return ½ Σ |share − share|: the share of rows that would have to move."""
    if not these.sum():
        return math.nan
    return float(np.abs(these / these.sum() - those / those.sum()).sum() / 2)


def unit_starts(predictions: Predictions | Claims, by: str | None) -> np.ndarray:
    """Return the first row of each unit: of each run of equal values of ``by``, or of each row."""
    n = len(predictions)
    if by is None or not n:
        return np.arange(n)
    column = predictions.groups[by]
    return np.flatnonzero(np.r_[True, column[1:] != column[:-1]])


def unit_means(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the mean of the values of each unit."""
    if not len(values):
        return np.zeros(0)
    return np.asarray(np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(values)]))


def drawn_rows(starts: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """Return one row of each unit, drawn at random."""
    sizes = np.diff(np.r_[starts, n])
    return np.asarray(starts + (random.random(len(starts)) * sizes).astype(np.int64))


def gap_spread(
    confidence: np.ndarray, correct: np.ndarray, starts: np.ndarray
) -> tuple[float, float]:
    """Return the variance of the mean of (confidence − correct), and the inflation by units."""
    off = np.add.reduceat(confidence - correct, starts)
    squares = float((off**2).sum())
    independent = float((confidence * (1 - confidence)).sum())
    inflation = squares / independent if independent > 0 and len(starts) < len(correct) else 1.0
    return squares / len(correct) ** 2, max(inflation, 1.0)


def atc_threshold(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Return the threshold with as many confidences at or above it as predictions are right.

    Average thresholded confidence: Garg, Balakrishnan, Lipton, Neyshabur, Sedghi 2022. Of equal
    confidences all or none are above; the nearer number is taken.

    >>> atc_threshold(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, True]))
    0.7
    """
    values, counts = np.unique(confidence, return_counts=True)
    above = counts[::-1].cumsum()[::-1]
    best = int(np.abs(above - correct.sum()).argmin())
    none = correct.sum() < above[-1] / 2
    return math.inf if none else float(values[best])


def _entities(
    raw: Predictions | Claims,
    honest: Predictions | Claims,
    calibrator: Calibrator | None,
    confidence: SpanCalibrator | None,
) -> EntityReference | None:
    if isinstance(raw, Claims) or isinstance(honest, Claims) or not is_bio(raw.label_names):
        return None
    tags = TagSet.of(raw.label_names)
    words = raw if calibrator is None else new_entity_words(calibrator, raw)
    if confidence is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            confidence = SpanCalibrator().fit(words)
    counts = entity_counts(honest)
    gold, both = float(counts.gold.sum()), float(counts.gold.sum() + counts.predicted.sum())
    f1 = 2 * float(counts.correct.sum()) / both if both else math.nan
    judged = confidence.transform(words)
    off = float(((judged.confidence - judged.correct) ** 2).sum())
    variance = off / max(len(judged), 1) ** 2
    probabilities = np.asarray(honest.probabilities(), np.float64)
    predicted, labels = shown_classes(honest, honest.names)[0], np.asarray(to_numpy(honest.labels))
    rates = learn_rates(probabilities, predicted, labels, tags, int(gold))
    return EntityReference(tags, confidence, rates, f1, variance, int(gold))
