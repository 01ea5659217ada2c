"""calibrant: honest confidence for neural classifiers.

The names below are imported when they are first used, so ``import calibrant`` loads nothing else.
All metrics are in :mod:`calibrant.metrics`, all calibrators in :mod:`calibrant.calibrators`, and
all training methods in :mod:`calibrant.methods`.
"""

TYPE_CHECKING = False  # Without importing typing: until the command line runs, Ctrl-C is not ours.
if TYPE_CHECKING:
    from typing import Any

    __version__: str

    from calibrant.adapting import Adaptation, adapt
    from calibrant.auditing import Audit, audit
    from calibrant.calibrators import (
        Beta,
        Calibrator,
        Dirichlet,
        HistogramBinning,
        Isotonic,
        Platt,
        Temperature,
        VennAbers,
        load_calibrator,
    )
    from calibrant.claims import Claims
    from calibrant.comparison import Comparison, compare, select_calibrator
    from calibrant.errors import CalibrantError, InputError, MissingExtraError, NotFittedError
    from calibrant.files import read
    from calibrant.loading import load, load_run
    from calibrant.methods import (
        CrossEntropy,
        Focal,
        HeadNoise,
        LabelSmoothing,
        MarginSmoothing,
        Method,
    )
    from calibrant.metrics import (
        CalibrationState,
        Confidences,
        accuracy,
        adaptive_ece,
        apcr,
        brier,
        classwise_ece,
        ece,
        entity_f1,
        mce,
        nll,
        smooth_ece,
        token_f1,
    )
    from calibrant.metrics.accumulate import accumulate
    from calibrant.policies import guarantee, load_policy
    from calibrant.predictions import Predictions
    from calibrant.report import write_report
    from calibrant.training.trainer import Trainer
    from calibrant.watching import Watch, watch
    from calibrant.wrapping import WrappedModel, wrap

__all__ = [
    "Adaptation",
    "Audit",
    "Beta",
    "CalibrantError",
    "CalibrationState",
    "Calibrator",
    "Claims",
    "Comparison",
    "Confidences",
    "CrossEntropy",
    "Dirichlet",
    "Focal",
    "HeadNoise",
    "HistogramBinning",
    "InputError",
    "Isotonic",
    "LabelSmoothing",
    "MarginSmoothing",
    "Method",
    "MissingExtraError",
    "NotFittedError",
    "Platt",
    "Predictions",
    "Temperature",
    "Trainer",
    "VennAbers",
    "Watch",
    "WrappedModel",
    "__version__",
    "accumulate",
    "accuracy",
    "adapt",
    "adaptive_ece",
    "apcr",
    "audit",
    "brier",
    "classwise_ece",
    "compare",
    "ece",
    "entity_f1",
    "guarantee",
    "load",
    "load_calibrator",
    "load_policy",
    "load_run",
    "mce",
    "nll",
    "read",
    "select_calibrator",
    "smooth_ece",
    "token_f1",
    "watch",
    "wrap",
    "write_report",
]

# The module of each name that is not in calibrant.metrics.
_HOMES = {
    name: module
    for module, names in {
        "adapting": "Adaptation adapt",
        "auditing": "Audit audit",
        "calibrators": "Beta Calibrator Dirichlet HistogramBinning Isotonic Platt Temperature "
        "VennAbers load_calibrator",
        "claims": "Claims",
        "comparison": "Comparison compare select_calibrator",
        "errors": "CalibrantError InputError MissingExtraError NotFittedError",
        "files": "read",
        "methods": "CrossEntropy Focal HeadNoise LabelSmoothing MarginSmoothing Method",
        "policies": "guarantee load_policy",
        "loading": "load load_run",
        "predictions": "Predictions",
        "report": "write_report",
        "training.trainer": "Trainer",
        "watching": "Watch watch",
        "wrapping": "WrappedModel wrap",
    }.items()
    for name in names.split()
}
_PARTS = frozenset(
    [
        "adapting",
        "auditing",
        "calibrators",
        "comparison",
        "corruptions",
        "distributed",
        "entities",
        "errors",
        "export",
        "files",
        "integrations",
        "loading",
        "losses",
        "methods",
        "metrics",
        "plots",
        "policies",
        "predictions",
        "report",
        "serving",
        "study",
        "training",
        "watching",
    ]
)


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        globals()[name] = _installed_version()
        return globals()[name]
    if name not in __all__:
        from calibrant.old_names import renamed

        return renamed(__name__, name)
    home = _HOMES.get(name, "metrics")
    if home == "wrapping":
        from calibrant.extras import require

        require("torch", "transformers", "Wrapping a model")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def _installed_version() -> str:
    """Return the version that the build took from the tag."""
    import importlib

    try:
        return str(importlib.import_module(f"{__name__}._version").__version__)
    except ImportError:  # A source tree that was never built: perhaps another one is installed.
        from importlib import metadata

        found = [d.version for d in metadata.distributions(name=__name__)]
        return found[0] if found else "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
