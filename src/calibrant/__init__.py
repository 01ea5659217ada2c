"""calibrant: honest confidence for neural classifiers."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # Without importing typing: until the command line runs, Ctrl-C is not ours.
if TYPE_CHECKING:
    from typing import Any

    from calibrant.errors import CalibrantError, InputError, MissingExtraError, NotFittedError
    from calibrant.metrics import (  # type: ignore[no-redef]  # Modules of the same names.
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


# Where names are that calibrant.metrics has not. All are imported when they are asked for: torch by
# few, and NumPy once the command line is ready to be interrupted.
_HOMES = {
    **dict.fromkeys(
        ("CalibrantError", "InputError", "MissingExtraError", "NotFittedError"), "calibrant.errors"
    ),
    "Predictions": "calibrant.predictions",
    "Trainer": "calibrant.training.trainer",
    "load": "calibrant.prediction.loading",
}
_PARTS = ("errors", "metrics", "prediction", "predictions")


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES.get(name, "calibrant.metrics")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
