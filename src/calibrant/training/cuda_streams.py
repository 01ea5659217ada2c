"""CUDA streams that no two loops of a process share.

PyTorch hands out 32 streams in turn and begins again. Two graphs captured on the same stream hold
the same work space of the matrix library; replayed side by side they would write over each other.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch

__all__ = ["own_stream"]

_ALL = 32  # The number of streams on each GPU.
_taken: set[tuple[int | None, int]] = set()


def own_stream(owner: object, device: torch.device, leave: int = 0) -> Any:
    """Return a stream that is reserved while ``owner`` lives.

    Return None without a GPU, or if fewer than ``leave`` streams would be left for others.
    """
    if device.type != "cuda":
        return None
    for number in range(2 * _ALL):
        if number == _ALL:
            gc.collect()  # Finished loops may not have been collected yet.
        stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        name = (stream.device_index, stream.cuda_stream)
        taken = sum(index == stream.device_index for index, _ in _taken)
        if name not in _taken and taken + leave < _ALL:
            _taken.add(name)
            weakref.finalize(owner, _taken.discard, name)
            return stream
    return None
