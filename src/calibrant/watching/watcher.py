"""The state of a watch: sums of chunks, and the capital of bettors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.calibrators import Calibrator
from calibrant.claims import Claims
from calibrant.comparison.span_calibrator import SpanCalibrator, entity_words
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.metrics.spans import find_spans, sentence_starts
from calibrant.predictions import Predictions
from calibrant.watching.betting import AccuracyBounds, Excuses, HonestyTest
from calibrant.watching.drift_test import DriftTest, log_odds_place
from calibrant.watching.pieces import labelled_rows
from calibrant.watching.record import Alarm, WatchedChunk
from calibrant.watching.reference import (
    PLACES,
    EntityReference,
    Reference,
    drawn_rows,
    unit_means,
    unit_starts,
)
from calibrant.watching.shown_classes import (
    check_alike,
    drift_classes,
    possible_tests,
    shown_classes,
    shown_names,
)
from calibrant.watching.summary import Summary
from calibrant.watching.sums import ChunkSums, Estimate, row_sums
from calibrant.watching.true_entities import opening_parts

__all__ = ["Watcher"]

_MOST_BYTES = 1 << 30  # Of the sums of chunks that may still grow.


@dataclass
class _Open:
    """A chunk that may still grow."""

    sums: ChunkSums
    evidence: dict[str, float]
    accuracy: Estimate
    alarms: tuple[str, ...] = ()


class Watcher:
    """Takes pieces of a stream, in the order of time."""

    def __init__(
        self,
        calibrator: Calibrator | None,
        reference: Predictions | Claims | None,
        summary: Summary,
        false_alarms: float,
        seed: int,
        entities: SpanCalibrator | None = None,
    ) -> None:
        self.calibrator, self.given, self.summary = calibrator, reference, summary
        self.entities = entities
        self.seed, self.random = seed, np.random.default_rng(seed + 1)
        # Known before the first row: the tests share the rate of false alarms.
        self.tests = possible_tests(reference)
        self.limit = math.log(len(self.tests) / false_alarms)
        self.rows = self.labelled = 0
        self.current: str | None = None  # The chunk of the last rows.
        self.total: ChunkSums | None = None
        self.open: dict[str, _Open] = {}
        self.closed: list[WatchedChunk] = []
        self.alarms: dict[str, Alarm] = {}
        self.bounds, self.honesty = AccuracyBounds(summary.level), HonestyTest()
        self.drifts: dict[str, DriftTest] = {}

    def add(self, name: str, piece: Predictions | Claims, by: str | None) -> None:
        """Take whole units of the chunk ``name``."""
        if not self.rows:
            self._begin(piece, by)
        if name != self.current:
            self._look()
        honest = piece if self.calibrator is None else self.calibrator.transform(piece)
        sums = self._sums(piece, honest, unit_starts(piece, by))
        self.rows += len(piece)
        self.total = sums if self.total is None else self.total + sums
        if name in self.open:
            sums = sums + self.open[name].sums
        else:
            self._check_memory(sums)
        before = self.open[name].alarms if name in self.open else ()
        self.open[name] = _Open(sums, self.evidence, self.accuracy, before)
        self.current = name

    def close(self, but: str | None = None) -> None:
        """Finish all chunks except one: no rows will be added to them."""
        if self.current != but:
            self._look()
        for name in [name for name in self.open if name != but]:
            self.closed.append(self._finished(name, self.open.pop(name)))

    def whole(self) -> WatchedChunk:
        """Return the numbers of the whole stream."""
        assert self.total is not None
        return self._finished(
            "all", _Open(self.total, self.evidence, self.accuracy, tuple(self.alarms))
        )

    def _finished(self, name: str, chunk: _Open) -> WatchedChunk:
        return self.summary.chunk(name, chunk.sums, chunk.evidence, chunk.accuracy, chunk.alarms)

    @property
    def evidence(self) -> dict[str, float]:
        """The capital of each bettor."""
        return {test: found.value for test, found in self._all_tests.items()}

    @property
    def accuracy(self) -> Estimate:
        """What labels show so far."""
        if not self.labelled:
            return Estimate(math.nan)
        return Estimate(self.bounds.mean, self.bounds.low, self.bounds.high)

    @property
    def _all_tests(self) -> dict[str, DriftTest | HonestyTest]:
        return {**self.drifts, "honesty": self.honesty}

    def _look(self) -> None:
        """Look for alarms where a chunk ends: parts that a file is read in must not matter."""
        name, self.current = self.current, None
        if name is None:
            return
        for test, found in self._all_tests.items():
            if found.largest >= self.limit and test not in self.alarms:
                self.alarms[test] = Alarm(test, name, self.rows, math.exp(min(found.largest, 700)))
                self.open[name].alarms += (test,)

    def _check_memory(self, sums: ChunkSums) -> None:
        bytes_each = sum(np.asarray(value).nbytes for value in vars(sums).values())
        if len(self.open) * bytes_each > _MOST_BYTES:
            raise InputError(
                f"There are more than {len(self.open):,} chunks; group by a column with fewer "
                "values, such as the day, or by rows (--chunk)."
            )

    def _begin(self, piece: Predictions | Claims, by: str | None) -> None:
        reference = None if self.given is None else self._reference(self.given, piece, by)
        names = shown_names(piece) if reference is None else reference.label_names
        self.summary = replace(self.summary, reference=reference, names=names)
        if reference is None:
            return
        rows = reference.n if self.calibrator is None else self.calibrator.fitted_on_["n"]
        excuses = Excuses.of_learning(reference.taught, rows, reference.inflation)
        self.honesty = HonestyTest(excuses)
        self.drifts = {"confidences": DriftTest(PLACES, self.seed + 2)}
        self.drifts["confidences"].learn(reference.unit_places)
        if "classes" in self.tests:
            self.drifts["classes"] = DriftTest(reference.class_places, self.seed + 3)
            self.drifts["classes"].learn(reference.unit_classes)

    def _reference(
        self, given: Predictions | Claims, piece: Predictions | Claims, by: str | None
    ) -> Reference:
        given = given.numpy()
        given = given[labelled_rows(given)]
        check_alike(given, piece)
        if isinstance(piece, Predictions) and (given.classes, given.names) != (
            piece.classes,
            piece.names,
        ):
            raise InputError(
                f"The reference has {given.classes} classes ({', '.join(given.names[:3])}, …), the "
                f"stream {piece.classes} ({', '.join(piece.names[:3])}, …); they must be the same."
            )
        if by is not None and by not in given.groups:
            raise InputError(
                f"The stream has a column '{by}' of rows that depend on each other, the reference "
                "has none; add it, or take rows as independent (--keep-together none)."
            )
        return Reference.of(given, self.calibrator, by, self.seed, self.entities)

    def _sums(self, piece: Any, honest: Any, starts: np.ndarray) -> ChunkSums:
        """Return the sums of a piece, and let the bettors see it."""
        probabilities = None
        if isinstance(honest, Predictions):
            probabilities = np.asarray(to_numpy(honest.probabilities()), np.float64)
        confidence, _, correct = top_label(honest)
        predicted, _ = shown_classes(honest, self.summary.names)
        given = top_label(piece)[0]
        shown, classes = shown_classes(piece, self.summary.names)
        known, reference = labelled_rows(piece), self.summary.reference
        self._test_drift(given, drift_classes(piece)[0], starts)
        self._take_labels(confidence, correct, known, starts)
        sums = ChunkSums(
            n=len(piece),
            above=0 if reference is None else int((confidence >= reference.threshold).sum()),
            shown=np.bincount(shown, minlength=classes),
            places=np.bincount(log_odds_place(given), minlength=PLACES),
            labelled=int(known.sum()),
            right=int(correct[known].sum()),
            **row_sums(probabilities, predicted, confidence, classes),
        )
        if probabilities is not None and reference is not None and reference.entities is not None:
            words = piece if self.calibrator is None else entity_words(self.calibrator, piece)
            sums = _with_entities(sums, words, predicted, probabilities, reference.entities)
        return sums

    def _test_drift(self, given: np.ndarray, classes: np.ndarray, starts: np.ndarray) -> None:
        if self.drifts:
            self.drifts["confidences"].add(log_odds_place(unit_means(given, starts)))
        if "classes" in self.drifts:
            self.drifts["classes"].add(classes[drawn_rows(starts, len(classes), self.random)])

    def _take_labels(
        self, confidence: np.ndarray, correct: np.ndarray, known: np.ndarray, starts: np.ndarray
    ) -> None:
        if not known.any():
            return
        opens = np.zeros(len(known), np.int64)
        opens[starts] = 1
        unit = np.cumsum(opens)[known]
        self.honesty.add(confidence[known], correct[known], unit)
        first = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
        self.bounds.add(unit_means(correct[known].astype(np.float64), first))
        self.labelled += int(known.sum())


def _with_entities(
    sums: ChunkSums,
    words: Predictions,
    predicted: np.ndarray,
    probabilities: np.ndarray,
    judge: EntityReference,
) -> ChunkSums:
    spans = find_spans(predicted, judge.tags, sentence_starts(words))
    value = judge.confidence.of_spans(words, spans, top_label(words)[0])
    parts = opening_parts(probabilities, predicted, judge.tags)
    mass = np.clip(parts @ judge.rates.rate, 0, 1)
    return replace(
        sums,
        entities=len(spans),
        entities_found=float(value.sum()),
        entities_variance=float((value * (1 - value)).sum()),
        entities_mass=parts.sum(axis=0),
        entities_mass_variance=float((mass * (1 - mass)).sum()),
    )
