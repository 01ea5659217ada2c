"""The folder of a trained network of images: its weights, and what is needed to build it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import parse_json

__all__ = ["load_network", "write_network"]

N = TypeVar("N", bound=nn.Module)


def write_network(model: nn.Module, folder: Path, about: dict[str, Any]) -> None:
    """Write weights as safetensors, and ``about`` as ``config.json``."""
    safetensors = require("safetensors.torch", "files", "Writing a model")
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    safetensors.save_file(state, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def load_network(
    folder: str | Path, build: Callable[[dict[str, Any]], N], what: str
) -> tuple[N, dict[str, Any]]:
    """Load ``what`` :func:`write_network` wrote, in evaluation mode, and its ``about``."""
    safetensors = require("safetensors.torch", "files", "Reading a model")
    folder = Path(folder)
    try:
        about: dict[str, Any] = parse_json((folder / "config.json").read_text())
        model = build(about)
        model.load_state_dict(safetensors.load_file(str(folder / "model.safetensors")))
    except InputError:
        raise
    except Exception as error:  # Of a damaged folder nothing is as the code expects it.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{folder} is no {what} that can be loaded: {reason}") from None
    return model.eval(), about
