"""What a comparison of calibrators found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from calibrant.calibrators import Calibrator
from calibrant.html_tables import html_table
from calibrant.json_values import json_values
from calibrant.metrics.table import with_former_names

__all__ = ["Comparison", "Row", "Settings"]


@dataclass(frozen=True)
class Row:
    """One calibrator: names with ``valid_`` are cross-validated on VALID, the others are on TEST.

    Each metric is an attribute too: ``row.ece`` is ``row.metrics["ece"]``.

    >>> from calibrant import Predictions, compare
    >>> p = Predictions.from_logits([[6.0, 0.0]] * 100, [0] * 80 + [1] * 20)
    >>> found = compare(p, p, ["temperature"], bootstrap=0, same_data=True)
    >>> row = found["temperature"]
    >>> round(row.nll, 3), round(row.valid_nll, 3), row.accuracy_change
    (0.5, 0.5, 0.0)
    """

    name: str
    valid_nll: float  # Mean NLL of VALID examples under calibrators fitted without them.
    valid_brier: float
    valid_ece: float
    valid_calibration: float | None  # The part of valid_nll that a calibrator can still take away.
    metrics: Mapping[str, float]  # All that need no tables per class.
    ece_low: float | None
    ece_high: float | None
    accuracy_change: float  # Against the scores as they are.
    fit_seconds: float  # One fit on all of VALID.
    notes: tuple[str, ...] = ()  # What the fit warned about.

    def __getattr__(self, name: str) -> float:
        """Return a metric; called only for names that are no fields."""
        if name.startswith("_") or name == "metrics" or name not in self.metrics:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return self.metrics[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the metrics side by side."""
        content = asdict(self)
        return {**with_former_names(content.pop("metrics")), **content}


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on besides the data.

    >>> from calibrant import Predictions, compare
    >>> p = Predictions.from_logits([[6.0, 0.0]] * 100, [0] * 80 + [1] * 20)
    >>> settings = compare(p, p, ["identity"], bootstrap=0, same_data=True).settings
    >>> settings.valid_examples, settings.classes, settings.folds, settings.bins
    (100, 2, 5, 15)
    """

    valid_examples: int
    test_examples: int
    classes: int
    folds: int
    bootstrap: int
    seed: int
    bins: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """The numbers of every calibrator that could run, and which one is recommended.

    ``fitted`` holds the calibrators, fitted on all of VALID:
    ``comparison.fitted[comparison.recommended]`` is ready to be saved.

    >>> from calibrant import Predictions, compare
    >>> p = Predictions.from_logits([[6.0, 0.0]] * 100, [0] * 80 + [1] * 20)
    >>> found = compare(p, p, ["identity", "temperature"], bootstrap=0, same_data=True)
    >>> found
    <Comparison of 2 calibrators: temperature is recommended>
    >>> round(found["identity"].ece, 2), round(found["temperature"].ece, 2)
    (0.2, 0.0)
    >>> round(found.fitted["temperature"].temperature_, 1)
    4.3
    """

    rows: tuple[Row, ...]  # From the simplest calibrator to the most flexible.
    skipped: Mapping[str, str]  # Calibrator → why it could not run.
    recommended: str
    reason: str
    settings: Settings
    fitted: Mapping[str, Calibrator]
    difference: str | None = None  # How TEST differs from VALID beyond chance, in one sentence.
    left_out: Mapping[str, Any] = field(default_factory=dict)  # What a cluster could not read.

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rows)} calibrators: {self.recommended} is recommended>"

    def __str__(self) -> str:
        """Return the recommendation and its reason."""
        return f"Recommended: {self.reason}"

    def _repr_html_(self) -> str:
        """Return the recommendation and a table for a notebook; * is the recommended one."""
        rows = [
            [
                f"{row.name} *" if row.name == self.recommended else row.name,
                *(f"{v:.4f}" for v in (row.valid_nll, row.ece, row.nll, row.brier)),
            ]
            for row in self.rows
        ]
        heads = ["calibrator", "NLL, cross-validated", "ECE on TEST", "NLL", "Brier"]
        return html_table(heads, rows, [str(self)])

    def __getitem__(self, name: str) -> Row:
        """Return the row of one calibrator."""
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the fitted calibrators, ready for JSON (:func:`calibrant.json_values`)."""
        rows = [row.to_dict() for row in self.rows]
        content = {
            "recommended": self.recommended,
            "reason": self.reason,
            "difference": self.difference,
            "calibrators": rows,
            "maps": rows,  # Its old key, until the format changes.
            "skipped": [{"name": name, "reason": why} for name, why in self.skipped.items()],
            "settings": asdict(self.settings),
        }
        return dict(json_values(content | ({"left_out": self.left_out} if self.left_out else {})))
