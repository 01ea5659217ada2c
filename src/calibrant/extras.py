"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from calibrant.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or say which extra brings it.

    >>> require("math", "torch", "Arithmetic").sqrt(4.0)
    2.0
    >>> require("no_such_module", "plots", "Drawing a reliability diagram")
    Traceback (most recent call last):
    ...
    calibrant.errors.MissingExtraError: Drawing a reliability diagram needs no_such_module, ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if error.name is not None and error.name.split(".")[0] != package:
            raise  # The package is there, but broken: its own words are the better message.
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed: pip install 'calibrant[{extra}]'"
        ) from None
