"""calibrant: honest confidence for neural classifiers."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from calibrant.errors import CalibrantError, InputError, MissingExtraError, NotFittedError
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    accumulate,
    accuracy,
    adaptive_ece,
    apcr,
    brier,
    classwise_ece,
    ece,
    entity_f1,
    interval,
    mce,
    nll,
    smooth_ece,
    token_f1,
)
from calibrant.prediction.loading import load
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from calibrant.training.trainer import Trainer

__all__ = [
    "CalibrantError",
    "CalibrationState",
    "Confidences",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "Predictions",
    "Trainer",
    "__version__",
    "accumulate",
    "accuracy",
    "adaptive_ece",
    "apcr",
    "brier",
    "classwise_ece",
    "ece",
    "entity_f1",
    "interval",
    "load",
    "mce",
    "nll",
    "smooth_ece",
    "token_f1",
]


def __getattr__(name: str) -> Any:
    if name == "Trainer":  # Loads torch and transformers, so only when it is asked for.
        from calibrant.training.trainer import Trainer

        return Trainer
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
