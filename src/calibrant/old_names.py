"""Old spellings of public names: each works for one release and warns."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

__all__ = ["OLD_NAMES", "add_old_modules", "renamed", "renamed_arguments", "warn_renamed"]

# Module → old name → its new place, "module:name".
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "calibrant": {
        "interval": "calibrant.metrics:bootstrap_interval",
    },
    "calibrant.prediction": {
        **{name: f"calibrant.loading:{name}" for name in ("load", "load_run")},
        **{name: f"calibrant.tasks.language.words:{name}" for name in ("Word", "split_words")},
        **{
            name: f"calibrant.comparison.risk_control:{name}"
            for name in ("Guarantee", "guaranteed_threshold")
        },
    },
    "calibrant.metrics": {
        "Steps": "calibrant.metrics:ConfidenceSteps",
        "debiased_ece": "calibrant.metrics:debiased_rms_ece",
        "error": "calibrant.metrics:error_rate",
        "f1": "calibrant.metrics:f1_of_counts",
        "interval": "calibrant.metrics:bootstrap_interval",
        "steps": "calibrant.metrics:confidence_steps",
    },
    "calibrant.calibrators": {
        "Entry": "calibrant.calibrators:CalibratorEntry",
        "load": "calibrant.calibrators:load_calibrator",
    },
    "calibrant.comparison": {"EntityMap": "calibrant.comparison:SpanCalibrator"},
    "calibrant.methods": {
        "Around": "calibrant.methods:Wrapper",
        "Entry": "calibrant.methods:MethodEntry",
    },
    "calibrant.training": {"HeadTap": "calibrant.training:HeadHook"},
    "calibrant.tasks.image_classifier": {
        name: f"calibrant.tasks.image.classifier:{name}"
        for name in ("ImageClassifier", "build_classifier", "load_classifier")
    },
    "calibrant.tasks.pictures": {"load_pictures": "calibrant.tasks.image:load_pictures"},
    "calibrant.tasks.scenes": {"load_scenes": "calibrant.tasks.segmentation:load_scenes"},
    "calibrant.tasks.segmenter": {
        name: f"calibrant.tasks.segmentation.segmenter:{name}"
        for name in ("PixelHead", "Segmenter", "build_segmenter", "load_segmenter")
    },
    "calibrant.tasks.shared_types": {"ALIASES": "calibrant.tasks.ner.corpora.shared_types:ALIASES"},
    "calibrant.tasks.task": {"open_task": "calibrant.tasks:open_task"},
}


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that ``old`` is now called ``new``; the default level names the caller's caller."""
    message = f"{old} is now {new}; the old name will be removed in the next release."
    warnings.warn(message, FutureWarning, stacklevel=stacklevel)


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def renamed_arguments(
    **old: str,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Let a function take arguments by an old name too: ``old="new"``."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @functools.wraps(function)
        def call(*given: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
            who = function.__name__
            for name in old.keys() & named.keys():
                warn_renamed(f"{who}({name}=…)", f"{who}({old[name]}=…)")
                named[old[name]] = named.pop(name)
            return function(*given, **named)

        return call

    return decorate


def renamed(module: str, name: str) -> Any:
    """Return what ``module.name`` is called today, with a warning; for ``__getattr__``."""
    new = OLD_NAMES.get(module, {}).get(name)
    if new is None:
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    home, _, today = new.partition(":")
    warn_renamed(f"{module}.{name}", f"{home}.{today}", stacklevel=4)
    return getattr(importlib.import_module(home), today)


class _OldModule(ModuleType):
    """A removed module, whose public names are elsewhere."""

    def __getattr__(self, name: str) -> Any:
        return renamed(self.__name__, name)


def add_old_modules(package: str) -> None:
    """Make the modules of ``package`` importable that have moved; for its ``__init__``."""
    for module in OLD_NAMES:
        inside = module.startswith(f"{package}.")
        if inside and module not in sys.modules and importlib.util.find_spec(module) is None:
            sys.modules[module] = _OldModule(module)
