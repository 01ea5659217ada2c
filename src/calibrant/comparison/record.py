"""What a comparison of maps found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calibrant.calibrators import Calibrator

__all__ = ["Comparison", "Row", "Settings"]


@dataclass(frozen=True)
class Row:
    """One map: its NLL on VALID by cross-validation, and on TEST everything else."""

    name: str
    valid_nll: float  # Mean NLL of VALID examples under maps fitted without them.
    nll: float
    brier: float
    ece: float
    ece_low: float | None
    ece_high: float | None
    adaptive_ece: float
    accuracy: float
    accuracy_change: float  # Against the scores as they are.
    fit_seconds: float  # One fit on all of VALID.
    notes: tuple[str, ...] = ()  # What the fit warned about.


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on beside the data."""

    valid_examples: int
    test_examples: int
    classes: int
    folds: int
    bootstrap: int
    seed: int
    bins: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every map that could run, why the others could not, and which one to take.

    ``fitted`` holds the maps, fitted on all of VALID: ``comparison.fitted[comparison.recommended]``
    is ready to be saved.
    """

    rows: tuple[Row, ...]  # From the simplest map to the most flexible.
    skipped: Mapping[str, str]  # Map → why it could not run.
    recommended: str
    reason: str
    settings: Settings
    fitted: Mapping[str, Calibrator]

    def __getitem__(self, name: str) -> Row:
        """The row of one map."""
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> dict[str, Any]:
        """All but the fitted maps, as JSON takes it: what is infinite or undefined is None."""
        return {
            "recommended": self.recommended,
            "reason": self.reason,
            "maps": [_finite(asdict(row)) for row in self.rows],
            "skipped": dict(self.skipped),
            "settings": asdict(self.settings),
        }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    big = float("inf")
    return {k: None if isinstance(v, float) and not -big < v < big else v for k, v in row.items()}
