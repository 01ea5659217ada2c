"""Find a threshold for entities with a guarantee: at most a share of accepted entities is wrong.

:mod:`calibrant.policies.risk` finds the threshold. The confidence of an entity is learned on the
same split, by a calibrator that never decreases (:class:`~calibrant.comparison.SpanCalibrator`). So
thresholds are set on the calibrator's input, which does not depend on the validation data, and then
transformed by the calibrator. The same entities are accepted, no matter what it learned.

The guarantee assumes that sentences are drawn independently; entities of one sentence may depend on
each other. It does not cover texts of another kind, nor choices made on the same split: the
calibrator's input (product, least or mean), and a calibrator of words if it changes tags. In that
case each validation sentence has the tags of a calibrator that was fitted on other sentences, which
is nearly, but not exactly, the one in use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.metrics.selective import threshold_text
from calibrant.policies.risk import THRESHOLDS, find_threshold

__all__ = ["THRESHOLDS", "Guarantee", "guaranteed_threshold"]


@dataclass(frozen=True)
class Guarantee:
    """A threshold and what is known of it.

    ``accepted`` and ``wrong`` of ``entities`` are counts on the validation split; ``upper`` is the
    upper bound of the risk at this one threshold. ``threshold`` is above 1, and nothing is
    accepted, where no threshold passed. ``items`` is what is counted: entities, or texts, images,
    pixels; a validation sentence or image has at most ``largest`` of them.
    """

    threshold: float
    target: float
    level: float
    entities: int
    accepted: int
    wrong: int
    upper: float
    items: str = "entities"
    largest: int = 1

    def __str__(self) -> str:
        target, level = f"{100 * self.target:g} %", f"{100 * self.level:g} %"
        if self.threshold > 1:
            return (
                f"No threshold keeps the risk at {target} with probability {level}, judged by "
                f"{self.entities:,} validation {self.items}: nothing is accepted.{self._together()}"
            )
        shown = threshold_text(self.threshold)
        which = "All" if shown == "all" else f"From a confidence of {shown} on,"
        return (
            f"{which} {self.items} are accepted. With probability {level}, at most {target} of "
            "them are wrong, if new data is like the validation split. There, "
            f"{self.accepted:,} of {self.entities:,} are accepted, and {self.wrong:,} of these are "
            "wrong."
        )

    def _together(self) -> str:
        """Say what a promise about items that depend on each other must allow for."""
        if self.largest <= 1:
            return ""
        whole = "sentence" if self.items == "entities" else "image"
        return (
            f" The promise must hold even if all {self.largest:,} {self.items} of the largest "
            f"validation {whole} are wrong together: more validation data or a higher target helps."
        )


def guaranteed_threshold(
    confidence: np.ndarray,
    correct: np.ndarray,
    target: float,
    level: float = 0.9,
    *,
    groups: np.ndarray | None = None,
    thresholds: np.ndarray = THRESHOLDS,
) -> Guarantee:
    """Find the loosest threshold whose risk is at most ``target`` with probability ``level``.

    ``confidence`` and ``correct`` are those of validation entities, and ``groups`` their sentences.
    ``thresholds`` are :data:`THRESHOLDS`, or these after the non-decreasing function that made the
    confidences.

    >>> confidence = np.linspace(0.5, 1, 1000)
    >>> found = guaranteed_threshold(confidence, confidence > 0.6, target=0.05)
    >>> round(found.threshold, 3), found.accepted, found.wrong
    (0.585, 830, 30)
    """
    confidence, correct = to_numpy(confidence).astype(float), to_numpy(correct).astype(bool)
    found = find_threshold(confidence, correct, target, level, groups=groups, thresholds=thresholds)
    counts = (found.n, found.accepted, found.wrong)
    return Guarantee(found.threshold, target, level, *counts, found.upper, largest=found.largest)
