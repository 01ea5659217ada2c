"""Measure a service for Prometheus: requests, times, confidences, abstentions, drift."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from calibrant.extras import require

__all__ = ["Measurements", "confidences"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TENTHS = (*(round(0.1 * i, 1) for i in range(1, 10)), 0.95, 0.99, 1.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_RECENT = 1000  # The drift compares the mean confidence of this many predictions.


def confidences(prediction: Any) -> list[tuple[float, float]]:
    """Return the confidence and the accepted share of each item of a prediction.

    An item is an entity, or a text or image with a class. The pixels of a mask are one item.
    """
    if hasattr(prediction, "entities"):
        kept = [(entity.confidence, 1.0) for entity in prediction.entities]
        return kept + [(entity.confidence, 0.0) for entity in prediction.abstained]
    mean = float(np.mean(prediction.confidence))
    # A policy with a coverage refuses nothing: it answers with a set of classes.
    return [(mean, 1.0 if prediction.accepted is None else float(np.mean(prediction.accepted)))]


class Measurements:
    """Counters of one service, in a separate registry, so that two services share nothing.

    ``expected`` is the mean confidence on the validation split. The gauge
    ``calibrant_confidence_drift`` is the mean of the last thousand predictions less ``expected``.
    """

    def __init__(self, expected: float | None, waiting: Callable[[], int]) -> None:
        prometheus = require("prometheus_client", "serve", "Measuring a service")
        self._write = prometheus.generate_latest
        self.content_type = prometheus.CONTENT_TYPE_LATEST
        self.registry = prometheus.CollectorRegistry()
        self._recent: deque[float] = deque(maxlen=_RECENT)

        def new(kind: str, name: str, words: str, **more: Any) -> Any:
            return getattr(prometheus, kind)(
                f"calibrant_{name}", words, registry=self.registry, **more
            )

        self._requests = new(
            "Counter",
            "requests",
            "Answered requests of known addresses.",
            labelnames=("path", "status"),
        )
        self._seconds = new(
            "Histogram", "request_seconds", "Time of a prediction request.", buckets=_SECONDS
        )
        self._sizes = new("Histogram", "batch_inputs", "Inputs run together.", buckets=_SIZES)
        self._confidence = new(
            "Histogram", "confidence", "Calibrated confidences.", buckets=_TENTHS
        )
        self._accepted = new("Counter", "accepted", "Accepted predictions.")
        self._abstained = new("Counter", "abstained", "Predictions that were not accepted.")
        waits = new("Gauge", "waiting_inputs", "Inputs in the queue.")
        waits.set_function(lambda: float(waiting()))
        mean = new("Gauge", "mean_confidence", f"Mean of the last {_RECENT} confidences.")
        mean.set_function(self._mean)
        if expected is not None:
            new("Gauge", "mean_confidence_validation", "Mean on validation data.").set(expected)
            drift = new("Gauge", "confidence_drift", "Mean confidence less that of validation.")
            drift.set_function(lambda: self._mean() - expected)

    def _mean(self) -> float:
        return float(np.mean(self._recent)) if self._recent else float("nan")

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer, and record the time of a prediction."""
        self._requests.labels(path, str(status)).inc()
        if path == "/predict":
            self._seconds.observe(seconds)

    def batch(self, size: int) -> None:
        """Count a call of the model."""
        self._sizes.observe(size)

    def predicted(self, predictions: Iterable[Any]) -> None:
        """Count confidences and accepted predictions."""
        for prediction in predictions:
            for confidence, accepted in confidences(prediction):
                self._recent.append(confidence)
                self._confidence.observe(confidence)
                self._accepted.inc(accepted)
                self._abstained.inc(1 - accepted)

    def text(self) -> bytes:
        """Return the measurements in Prometheus' format."""
        return bytes(self._write(self.registry))
