"""Identity: the calibrator that changes nothing, to compare the others with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.arrays import Array
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.predictions import Predictions

__all__ = ["Identity"]


class Identity(Calibrator):
    """Return the scores unchanged, even probabilities of 0: an infinite NLL stays infinite.

    >>> p = Predictions.from_logits([[2.0, 0.0]], [0])
    >>> Identity().fit(p).transform(p).scores
    array([[2., 0.]])
    """

    name = "identity"
    keeps_argmax = True
    changes_scores = False
    takes_claims = True
    takes_weights = True

    def _fit(self, predictions: Predictions) -> Fit:  # noqa: ARG002 - nothing to learn
        return Fit({})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:  # noqa: ARG002
        return scores
