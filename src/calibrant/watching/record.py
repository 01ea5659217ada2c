"""What watching a stream found, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.charts.numbers import count, counted, percent
from calibrant.watching.sums import Estimate

__all__ = ["Alarm", "Watch", "WatchedChunk"]

# What is tested → what an alarm of it says.
TESTS = {
    "confidences": "the confidences are not those of the reference",
    "classes": "the predicted classes are not those of the reference",
    "honesty": "the confidences are not honest: labels contradict them",
}


@dataclass(frozen=True)
class Alarm:
    """The first time that the evidence of one test reached its limit.

    >>> print(Alarm("confidences", chunk="2024-05-02", row=4000, evidence=250.0))
    Alarm in chunk 2024-05-02, by row 4,000: the confidences are not those of the reference.
    """

    test: str
    chunk: str
    row: int  # Rows of the stream that were seen by then.
    evidence: float

    def __str__(self) -> str:
        return f"Alarm in chunk {self.chunk}, by row {count(self.row)}: {TESTS[self.test]}."


@dataclass(frozen=True)
class WatchedChunk:
    """One chunk, or the whole stream: what its labels would show, and what has changed.

    ``labelled_accuracy`` is what the labels of the chunk did show. ``accuracy`` is the mean over
    the labelled units of the stream so far, with a confidence sequence.
    ``evidence`` is the capital of the bettors after the chunk, by test.

    >>> import numpy as np
    >>> from calibrant import Predictions
    >>> from calibrant.watching import unlabelled, watch
    >>> stream = unlabelled(Predictions.from_probabilities([0.9, 0.8, 0.7, 0.6], [1, 1, 1, 1]))
    >>> for chunk in watch(stream, chunk=2).chunks:
    ...     print(chunk.name, chunk.rows, round(chunk.expected_accuracy.value, 2))
    1 2 0.85
    2 2 0.65
    """

    name: str
    rows: int
    expected_accuracy: Estimate
    expected_macro_f1: Estimate
    expected_entity_f1: Estimate
    class_f1: Mapping[str, float]
    confidence_drift: float
    class_drift: float
    labelled: int
    accuracy: Estimate
    labelled_accuracy: float
    evidence: Mapping[str, float]
    alarms: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk as data for JSON."""
        return {
            "name": self.name,
            "rows": self.rows,
            **{
                key: _estimate(getattr(self, key))
                for key in ("expected_accuracy", "expected_macro_f1", "expected_entity_f1")
            },
            "class_f1": dict(self.class_f1),
            "drift": {"confidences": self.confidence_drift, "classes": self.class_drift},
            "labelled": self.labelled,
            "labelled_accuracy": self.labelled_accuracy,
            "accuracy_so_far": _estimate(self.accuracy),
            "evidence": dict(self.evidence),
            "alarms": list(self.alarms),
        }


def _estimate(found: Estimate) -> dict[str, float]:
    return found._asdict()


@dataclass(frozen=True)
class Watch:
    """What :func:`~calibrant.watching.watch` found.

    ``chunks`` come in the order of the stream, ``total`` is all of it. ``reference`` has the
    numbers of the reference, empty without one; ``settings`` has how it was watched.

    >>> import numpy as np
    >>> from calibrant import Predictions
    >>> from calibrant.watching import unlabelled, watch
    >>> random = np.random.default_rng(0)
    >>> old, new = random.uniform(0.8, 1, 4000), random.uniform(0.6, 0.9, 4000)
    >>> reference = Predictions.from_probabilities(old, (random.random(4000) < old).astype(int))
    >>> stream = unlabelled(Predictions.from_probabilities(new, np.ones(4000, int)))
    >>> found = watch(stream, reference=reference, chunk=2000)
    >>> print(found.verdict[0])
    Expected accuracy of the stream: 75.0 % (73.4 % to 76.6 %); on the reference it was 90.0 %.
    >>> found.alarms[0].chunk, found.alarms[0].test
    ('1', 'confidences')
    """

    chunks: tuple[WatchedChunk, ...]
    total: WatchedChunk
    alarms: tuple[Alarm, ...]
    reference: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Watch of {counted(self.total.rows, 'row')} in {counted(len(self.chunks), 'chunk')}: "
            f"expected accuracy {percent(self.total.expected_accuracy.value)}, "
            f"{counted(len(self.alarms), 'alarm')}>"
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The result in sentences, the most important first."""
        return (self._accuracy(), *self._labels(), *self._alarms(), *self._advice())

    def _accuracy(self) -> str:
        value, low, high = self.total.expected_accuracy
        known = "" if math.isnan(low) else f" ({percent(low)} to {percent(high)})"
        text = f"Expected accuracy of the stream: {percent(value)}{known}"
        if self.reference:
            text += f"; on the reference it was {percent(self.reference['accuracy'])}"
        return text + "."

    def _labels(self) -> tuple[str, ...]:
        if not self.total.labelled:
            return ()
        value, low, high = self.total.accuracy
        unit = self.settings.get("keep_together")
        mean = f"the mean accuracy of a {unit} ({percent(value)})" if unit else "the mean accuracy"
        part = self.total.labelled < self.total.rows
        sample = (
            " This is about the labelled rows; about the whole stream only if they are a random "
            "sample of it, not the least certain ones."
        )
        are = "is" if self.total.labelled == 1 else "are"
        return (
            f"{counted(self.total.labelled, 'label')} arrived: "
            f"{percent(self.total.labelled_accuracy)} {are} right. With "
            f"{100 * self.settings['level']:g} % confidence, whenever you look, {mean} so far is "
            f"{percent(low)} to {percent(high)}, even if it changes.{sample if part else ''}",
        )

    def _alarms(self) -> tuple[str, ...]:
        rate = f"at most {100 * self.settings['false_alarms']:g} % of streams"
        if not self.settings["tests"]:
            return ("No test of drift: it needs a reference, or labels.",)
        still = "without any change"
        if self.total.labelled:
            still += " and with honest confidences"
            still += ", as far as the reference can teach them" if self.reference else ""
        if not self.alarms:
            return (f"No alarm ({still}, {rate} would have one, however long).",)
        alarms = " ".join(map(str, self.alarms))
        return (f"{alarms} {still.capitalize()}, {rate} would have an alarm, however long.",)

    def _advice(self) -> tuple[str, ...]:
        if not self.alarms:
            return ()
        return (
            "Expected values hold while the confidences are honest. Label some rows of the newest "
            "chunk and watch again, or correct the calibrator with 'calibrant adapt'.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as data for JSON."""
        return {
            "verdict": list(self.verdict),
            "warnings": list(self.warnings),
            "alarms": [vars(alarm) for alarm in self.alarms],
            "total": self.total.to_dict(),
            "chunks": [chunk.to_dict() for chunk in self.chunks],
            "reference": dict(self.reference),
            "settings": dict(self.settings),
        }
