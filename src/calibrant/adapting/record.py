"""What adapting a calibrator found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.adapting.set_level import SetPoint
from calibrant.calibrators import Calibrator
from calibrant.charts.numbers import counted, percent
from calibrant.watching.sums import Estimate

__all__ = ["Adaptation", "ClassShare"]

_MOST_NAMED = 5
_WIDE = 0.25  # An interval of a share that says little.


@dataclass(frozen=True)
class ClassShare:
    """The share of a class in the validation data and in the new data.

    The intervals of all classes hold at once. ``changed``: the change is more than chance.

    >>> share = ClassShare("spam", before=0.5, after=0.2, low=0.18, high=0.22, changed=True)
    >>> f"{share.before:.0%} → {share.after:.0%} ({share.low:.0%} to {share.high:.0%})"
    '50% → 20% (18% to 22%)'
    """

    name: str
    before: float
    after: float
    low: float
    high: float
    changed: bool


@dataclass(frozen=True, eq=False)
class Adaptation:
    """A calibrator for a new data set, and what is believed to have changed.

    ``changed`` is false where the new data differ from the validation data by no more than chance;
    then ``calibrator`` is the given calibrator. ``classes`` are there for label shift, ``sets`` for
    the set-level correction. ``checks`` has the numbers on which the refusals rest.

    >>> import numpy as np
    >>> from calibrant import Predictions, Temperature, adapt
    >>> random = np.random.default_rng(0)
    >>> def sample(n, share):
    ...     labels = (random.random(n) < share).astype(int)
    ...     return Predictions.from_logits(4.0 * labels - 2 + 2 * random.normal(size=n), labels)
    >>> valid = sample(4000, 0.5)
    >>> found = adapt(Temperature().fit(valid), valid, sample(4000, 0.2))
    >>> found.method, found.changed
    ('em', True)
    >>> print(found.verdict[0])
    Class frequencies have changed: '0' 49.2 % → 80.7 %, '1' 50.8 % → 19.3 %.
    """

    calibrator: Calibrator
    method: str
    rows: int
    changed: bool
    valid_accuracy: float
    valid_confidence: float
    confidence_before: float  # Of the new data, by the given calibrator.
    expected_accuracy: Estimate  # And mean confidence, by the new calibrator.
    classes: tuple[ClassShare, ...] = ()
    sets: tuple[SetPoint, ...] = ()
    checks: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    entities: Mapping[str, Any] = field(default_factory=dict)  # Of a run that finds entities.

    def __repr__(self) -> str:
        return (
            f"<Adaptation by {self.method} to {counted(self.rows, 'row')}: expected accuracy "
            f"{percent(self.expected_accuracy.value)}, "
            f"{'changed' if self.changed else 'nothing changed beyond chance'}>"
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The result in sentences."""
        value, low, high = self.expected_accuracy
        known = f"{percent(value)} ({percent(low)} to {percent(high)})"
        accuracy = (
            f"Expected accuracy on the new data: {known}; on the validation data it was "
            f"{percent(self.valid_accuracy)}. The given calibrator says "
            f"{percent(self.confidence_before)}, and {percent(self.valid_confidence)} of the "
            "validation data."
        )
        return (*self._change(), accuracy, *self._entities())

    def _entities(self) -> tuple[str, ...]:
        if "expected_precision" in self.entities:
            value, low, high = self.entities["expected_precision"].values()
            return (
                f"Of the entities that are found, {percent(value)} ({percent(low)} to "
                f"{percent(high)}) are expected to be right.",
            )
        if "unchanged" in self.entities:
            return (f"Confidences of entities stay as they are: {self.entities['unchanged']}",)
        return ()

    def _change(self) -> tuple[str, ...]:
        if not self.changed:
            return (
                f"Nothing has changed by more than chance{self._unknown()}: the calibrator stays "
                "unchanged.",
            )
        if self.sets:
            return ()
        moved = sorted(  # Of two classes both move as far: rounding decides nothing.
            (c for c in self.classes if c.changed), key=lambda c: -round(abs(c.after - c.before), 9)
        )
        named = [
            f"'{c.name}' {percent(c.before)} → {percent(c.after)}" for c in moved[:_MOST_NAMED]
        ]
        more = f", and {len(moved) - len(named)} more" if len(moved) > len(named) else ""
        return (f"Class frequencies have changed: {', '.join(named)}{more}.",)

    def _unknown(self) -> str:
        """Say that the data do not determine a share, so that much may have changed unseen."""
        widest = max(self.classes, key=lambda c: c.high - c.low, default=None)
        if widest is None or widest.high - widest.low <= _WIDE:
            return ""
        return (
            f", but these data say little about class frequencies ('{widest.name}': "
            f"{percent(widest.low)} to {percent(widest.high)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as data for JSON."""
        return {
            "method": self.method,
            "rows": self.rows,
            "changed": self.changed,
            "verdict": list(self.verdict),
            "valid": {"accuracy": self.valid_accuracy, "mean_confidence": self.valid_confidence},
            "mean_confidence": self.confidence_before,
            "expected_accuracy": self.expected_accuracy._asdict(),
            "classes": [vars(share) for share in self.classes],
            "sets": [point._asdict() for point in self.sets],
            "checks": dict(self.checks),
            "settings": dict(self.settings),
            "entities": dict(self.entities) or None,
        }
