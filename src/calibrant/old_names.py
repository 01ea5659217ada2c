"""Old spellings of public names: each works for one release and warns."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

__all__ = ["OLD_NAMES", "renamed", "warn_renamed"]

# Module → old name → its new place, "module:name".
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "calibrant": {
        "interval": "calibrant.metrics:bootstrap_interval",
        "load": "calibrant:load_run",
    },
    "calibrant.metrics": {
        "Steps": "calibrant.metrics:ConfidenceSteps",
        "debiased_ece": "calibrant.metrics:debiased_rms_ece",
        "error": "calibrant.metrics:error_rate",
        "f1": "calibrant.metrics:f1_of_counts",
        "interval": "calibrant.metrics:bootstrap_interval",
        "steps": "calibrant.metrics:confidence_steps",
    },
    "calibrant.calibrators": {"load": "calibrant.calibrators:load_calibrator"},
    "calibrant.methods": {"Around": "calibrant.methods:Wrapper"},
    "calibrant.training": {"HeadTap": "calibrant.training:HeadHook"},
}


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that ``old`` is now called ``new``; the default level names the caller's caller."""
    message = f"{old} is now {new}; the old name will be removed in the next release."
    warnings.warn(message, FutureWarning, stacklevel=stacklevel)


def renamed(module: str, name: str) -> Any:
    """Return what ``module.name`` is called today, with a warning; for ``__getattr__``."""
    new = OLD_NAMES.get(module, {}).get(name)
    if new is None:
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    home, _, today = new.partition(":")
    warn_renamed(f"{module}.{name}", f"{home}.{today}", stacklevel=4)
    return getattr(importlib.import_module(home), today)
