"""Predict one class for each input: texts and images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from calibrant.files import LABELLED
from calibrant.policies.decisions import joined_set
from calibrant.predictions import Predictions
from calibrant.tasks.predictor import (
    Acceptance,
    ModelPredictor,
    check_top_k,
    ranked,
    unlabelled,
)
from calibrant.tasks.scoring import Scored

__all__ = ["ClassPredictor", "Classification", "Ranked"]


@dataclass(frozen=True)
class Ranked:
    """A class and its calibrated probability."""

    label: str
    confidence: float


@dataclass(frozen=True)
class Classification:
    """The predicted class of one input with its calibrated confidence.

    ``accepted`` is false where the confidence does not reach the threshold, and where the
    input is ``empty``: an empty input has no real prediction. ``alternatives`` are the next
    classes, the most probable first. ``labels`` is the prediction set of a policy with a coverage,
    which accepts nothing: ``accepted`` is then None, unless a least confidence was asked for.
    """

    label: str
    confidence: float
    accepted: bool | None = True
    alternatives: tuple[Ranked, ...] = ()
    labels: tuple[str, ...] | None = None
    empty: bool = False

    def cells(self) -> list[dict[str, Any]]:
        """Return the rows of a table, by the columns of :meth:`ClassPredictor.columns`."""
        found = self._first()
        for place, other in enumerate(self.alternatives, start=2):
            found |= {f"label_{place}": other.label, f"confidence_{place}": other.confidence}
        if self.labels is not None:
            found["labels"] = joined_set(self.labels)
        return [found]

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as data for JSON."""
        found = self._first()
        if self.alternatives:
            found["alternatives"] = [vars(other).copy() for other in self.alternatives]
        if self.labels is not None:
            found["labels"] = list(self.labels)
        if self.empty:
            found["empty"] = True
        return found

    def _first(self) -> dict[str, Any]:
        found: dict[str, Any] = {"label": self.label, "confidence": self.confidence}
        return found if self.accepted is None else {**found, "accepted": self.accepted}


class ClassPredictor(ModelPredictor):
    """Predicts one class for each input: texts and images. A subclass makes the logits."""

    @abstractmethod
    def scored(self, inputs: Sequence[Any]) -> Scored:
        """Return the raw logits of some inputs, (n, classes), and signals."""

    def stream(
        self,
        inputs: Iterable[Any],
        *,
        top_k: int = 1,
        batch: int | None = None,
        **options: Any,
    ) -> Iterator[Classification]:
        """Predict as :meth:`predict`, ``batch`` inputs at a time."""
        check_top_k(top_k)
        accept = self.acceptance(**options)
        waiting = iter(inputs)
        while part := list(islice(waiting, batch or self.block)):
            found = self._classified(self.scored(part), top_k, accept)
            for given, prediction in zip(part, found, strict=True):
                nothing = self.is_empty(given)
                yield replace(prediction, accepted=False, empty=True) if nothing else prediction

    def is_empty(self, given: Any) -> bool:  # noqa: ARG002
        """Return whether an input holds nothing that a class could be read from."""
        return False

    def raw_predictions(
        self,
        inputs: Iterable[Any],
        *,
        tokens: bool = False,  # noqa: ARG002
    ) -> Iterator[Predictions]:
        """Yield the predictions of inputs before the calibrator, a thousand at a time."""
        waiting = iter(self.as_inputs(inputs))
        while batch := list(islice(waiting, self.block)):
            nothing = {LABELLED: np.zeros(len(batch), bool)}
            yield unlabelled(*self.scored(batch), self.labels, nothing)

    def columns(self, top_k: int, accept: Acceptance) -> list[str]:
        """Return the columns of a table of predictions: label, confidence, accepted and so on."""
        places = range(2, min(top_k, len(self.labels)) + 1)
        more = [f"{name}_{place}" for place in places for name in ("label", "confidence")]
        sets = ["labels"] * (accept.policy is not None and accept.policy.kind == "coverage")
        if sets:
            joined_set(self.labels)  # Refuses names that a table cannot show before the work.
        decided = ["accepted"] * accept.decides
        return ["label", "confidence", *decided, *more, *sets]

    def _classified(
        self, scored: Scored, top_k: int, accept: Acceptance
    ) -> Iterator[Classification]:
        calibrated = self.calibrator.transform(unlabelled(*scored, self.labels))
        probabilities = np.asarray(calibrated.probabilities(), np.float64)
        order = ranked(probabilities, top_k)
        top = np.take_along_axis(probabilities, order, axis=1)
        names = [self.labels[k] for k in order[:, 0]]
        accepted: list[bool | None] = [None] * len(names)
        if accept.decides:
            accepted = accept.decide(top[:, 0], names).tolist()
        sets = None
        if accept.policy is not None and accept.policy.kind == "coverage":
            sets = accept.policy.sets(calibrated)
        for row, (numbers, values) in enumerate(zip(order.tolist(), top.tolist(), strict=True)):
            others = [Ranked(self.labels[k], p) for k, p in zip(numbers, values, strict=True)]
            kept = None if sets is None else tuple(np.array(self.labels)[sets[row]].tolist())
            yield Classification(names[row], values[0], accepted[row], tuple(others[1:]), kept)
