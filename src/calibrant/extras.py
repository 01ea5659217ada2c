"""Optional dependencies, imported where they are used, and the devices of torch."""

from __future__ import annotations

import importlib
import re
from importlib import metadata
from types import ModuleType

from calibrant.errors import InputError, MissingExtraError

__all__ = ["describe_missing", "mismatched_torchvision", "require", "usable_device"]

_PACKAGES = {"PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml"}


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or raise an error that names the extra with it.

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


def describe_missing(error: ModuleNotFoundError) -> str | None:
    """Return which package is missing and how to install it; None if it is a part of calibrant.

    >>> describe_missing(ModuleNotFoundError("", name="jaxtyping"))
    "This needs jaxtyping, which is not installed: pip install 'calibrant[torch]'"
    >>> describe_missing(ModuleNotFoundError("", name="einops.layers"))
    'This needs einops, which is not installed: pip install einops'
    """
    module = (error.name or "").split(".")[0]
    if module in ("", "calibrant"):
        return None
    package = _PACKAGES.get(module, module)
    extra = _extra_with(package)
    wanted = package if extra is None else f"'calibrant[{extra}]'"
    return f"This needs {package}, which is not installed: pip install {wanted}"


def _extra_with(package: str) -> str | None:
    """Return the extra of calibrant that installs a package, the one of fewest packages."""
    extras: dict[str, list[str]] = {}
    try:
        lines = metadata.requires("calibrant") or []
    except metadata.PackageNotFoundError:
        return None
    for line in lines:
        needed, _, marker = line.partition(";")
        if (found := re.search(r"extra == ['\"]([^'\"]+)", marker)) is not None:
            name = re.match(r"[\w.-]+", needed.strip())
            extras.setdefault(found[1], []).append("" if name is None else name[0].lower())
    having = [extra for extra, names in extras.items() if package.lower() in names]
    return min(having, key=lambda extra: (len(extras[extra]), extra), default=None)


def mismatched_torchvision(error: BaseException | None) -> str | None:
    """Return advice for an error from a torchvision built for another torch, else None.

    transformers imports torchvision where it is there, also for text, and fails in a way that
    names neither.

    >>> try:
    ...     raise RuntimeError("operator torchvision::nms does not exist")
    ... except RuntimeError as error:
    ...     print(mismatched_torchvision(error))
    The torchvision that is installed was made for another torch (operator torchvision::nms does ...
    """
    while error is not None and "torchvision::" not in str(error):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    return (
        "The torchvision that is installed was made for another torch "
        f"({str(error).splitlines()[0]}), which stops transformers too: install the one that "
        "matches, or for text none (pip uninstall torchvision)."
    )


def usable_device(device: str) -> str:
    """Return the device, if torch can use it.

    >>> usable_device("cpu")
    'cpu'
    """
    torch = require("torch", "torch", f"The device '{device}'")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"Device '{device}' cannot be used: {reason}") from None
    return device
