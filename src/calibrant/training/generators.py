"""Use a loop's own random generator in place of the default one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["drawing_from"]


@contextlib.contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Make dropout and all other users of the default generator draw from this one."""
    if generator.device.type == "cuda":
        default: Any = torch.cuda.default_generators[generator.device.index or 0]
        previous = default.graphsafe_get_state()
        default.graphsafe_set_state(generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(previous)
    else:
        saved = torch.get_rng_state()
        torch.set_rng_state(generator.get_state())
        try:
            yield
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(saved)
