"""calibrant's metrics as a torchmetrics ``Metric``, for Lightning and other training loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.metrics import METRICS, Bins, CalibrationState, ConfidenceSketch, accumulate
from calibrant.metrics.sorted_confidences import confidence_steps
from calibrant.metrics.tensors import widest
from calibrant.predictions import Kind, Predictions

torchmetrics = require("torchmetrics", "lightning", "calibrant.integrations.torchmetrics")

if TYPE_CHECKING:
    from torchmetrics import Metric
else:
    Metric = torchmetrics.Metric

__all__ = ["CalibrationMetrics"]

_MAKE = {"logits": Predictions.from_logits, "probabilities": Predictions.from_probabilities}
_SOURCES = {"state", "classwise", "confidences"}


class CalibrationMetrics(Metric):
    """Calibration metrics of a classifier, in constant memory and over any number of processes::

        metrics = CalibrationMetrics(classes=10, names=["ece", "nll", "auroc"])
        for logits, labels in loader:
            metrics.update(logits, labels)
        metrics.compute()          # {"ece": tensor(…), "nll": tensor(…), "auroc": tensor(…)}

    torchmetrics' own calibration error keeps every confidence; this keeps sums per bin, and for
    metrics of ranks (AUROC, AURC, KS, adaptive ECE) a :class:`~calibrant.metrics.ConfidenceSketch`,
    whose error is stated there. ``names`` are those of :data:`calibrant.metrics.METRICS`; the
    default is all that have a source here. Scores are logits, (n, K) or (n, K, …) with the classes
    second, unless ``kind="probabilities"``; the label −100 is ignored. With ``weighted=True``,
    ``update(scores, labels, weights)`` takes sample weights in the shape of the labels.
    """

    ignored: Tensor
    full_state_update = False
    is_differentiable = False

    def __init__(
        self,
        classes: int,
        names: Sequence[str] | None = None,
        bins: int = 15,
        kind: Kind = "logits",
        weighted: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.weighted = weighted
        self.names = _checked_names(names, weighted)
        self.classes, self.bins, self.score_kind = classes, Bins(bins), kind
        needed = {source for name in self.names for source in METRICS[name].source}
        self.classwise, self.ranks = "classwise" in needed, "confidences" in needed
        self.add_state("ignored", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        for name, table in self._empty().items():
            self.add_state(name, torch.as_tensor(table), dist_reduce_fx="sum")

    def _empty(self) -> dict[str, np.ndarray]:
        options: dict[str, Any] = {"classwise": self.classwise, "weighted": self.weighted}
        state = CalibrationState.empty(self.classes, self.bins, **options)
        tables = {f"state_{name}": getattr(state, name) for name in state.SUMS}
        sketch = ConfidenceSketch.empty(weighted=self.weighted)
        return tables | (_columns(sketch) if self.ranks else {})

    def update(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch."""
        self._check_weights(labels, weights)
        if weights is not None and not weights.any():  # Nothing counts in this batch.
            self.ignored = self.ignored + labels.numel()
            return
        if scores.ndim > 2:  # Classes second: pixels or tokens.
            scores, labels = scores.movedim(1, -1).flatten(0, -2), labels.flatten()
        if weights is not None:
            weights = weights.detach().flatten()
        p = _MAKE[self.score_kind](scores.detach(), labels, weights=weights)
        if p.classes != self.classes:
            raise InputError(
                f"CalibrationMetrics expects scores of {self.classes} classes, got {p.classes}."
            )
        state = accumulate(p, self.bins, classwise=self.classwise)
        self.ignored = self.ignored + p.ignored
        added = {f"state_{name}": getattr(state, name) for name in state.SUMS}
        if self.ranks:
            added |= _columns(ConfidenceSketch.of(p))
        for name, table in added.items():
            setattr(self, name, getattr(self, name) + torch.as_tensor(table).to(self.device))

    def _check_weights(self, labels: Tensor, weights: Tensor | None) -> None:
        if (weights is not None) != self.weighted:
            raise InputError(
                "CalibrationMetrics takes weights in every update if weighted=True, else in none."
            )
        if weights is not None and weights.shape != labels.shape:
            raise InputError(
                f"CalibrationMetrics expects weights of the shape of the labels, "
                f"{tuple(labels.shape)}, got {tuple(weights.shape)}."
            )

    def compute(self) -> dict[str, Tensor]:
        """Return the metrics of everything that was added, by name."""
        sums: dict[str, Any] = {n: self._table(f"state_{n}") for n in CalibrationState.SUMS}
        about = (self.bins, self.classes, int(self.ignored))
        state = CalibrationState(*about, **sums, weighted=self.weighted)
        sources: dict[str, Any] = {"state": state, "classwise": state}
        if self.ranks:
            sketch = ConfidenceSketch(*map(self._table, _columns(ConfidenceSketch.empty())))
            sources["confidences"] = confidence_steps(sketch)
        options: dict[str, Any] = {"dtype": widest(self.device), "device": self.device}
        return {name: torch.tensor(self._value(name, sources), **options) for name in self.names}

    def _value(self, name: str, sources: Mapping[str, Any]) -> float:
        metric = METRICS[name]
        return float(metric.with_bins(self.bins.count)(*(sources[s] for s in metric.source)))

    def _table(self, name: str) -> np.ndarray:
        return np.asarray(getattr(self, name).cpu().numpy())


def _columns(sketch: ConfidenceSketch) -> dict[str, np.ndarray]:
    """Return the sketch's arrays, in the order of its fields."""
    return {
        "sketch_count": sketch.count,
        "sketch_correct": sketch.correct,
        "sketch_confidence": sketch.confidence,
    }


def _checked_names(names: Sequence[str] | None, weighted: bool) -> list[str]:
    known = [
        name
        for name, metric in METRICS.items()
        if metric.kind == "classes" and set(metric.source) <= _SOURCES
    ]
    known = [name for name in known if METRICS[name].weighted or not weighted]
    for name in names or ():
        if name in METRICS and weighted and not METRICS[name].weighted:
            raise InputError(f"CalibrationMetrics: '{name}' is not defined with sample weights.")
        if name not in known:
            raise InputError(
                f"CalibrationMetrics does not know the metric '{name}'. Known: {', '.join(known)}."
            )
    return known if names is None else list(names)
