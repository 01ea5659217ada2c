"""Run modules compiled by ``torch.compile`` uncompiled for a while."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

__all__ = ["as_written"]


def as_written() -> contextlib.AbstractContextManager[Any]:
    """Run compiled modules uncompiled inside the block.

    For evaluation between training steps: compiling once more, for another mode and another size
    of batch, takes longer than it saves.
    """
    stance: Any = getattr(torch.compiler, "set_stance", None)  # Since torch 2.6.
    return contextlib.nullcontext() if stance is None else stance("force_eager")
