"""calibrant: honest confidence for neural classifiers."""

__version__ = "0.1.0"

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

__all__ = [
    "CalibrantError",
    "CalibrationState",
    "Confidences",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "Predictions",
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
