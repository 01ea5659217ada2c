"""The resources of one loop: its random generator, its CUDA stream, uncompiled modules."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["as_written", "drawing_from", "own_stream"]

_ALL = 32  # The number of streams on each GPU.
_taken: set[tuple[int | None, int]] = set()


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


def own_stream(owner: object, device: torch.device, leave: int = 0) -> Any:
    """Return a stream that is reserved while ``owner`` lives.

    PyTorch has 32 streams, which it gives out in turn. Two graphs captured on the same stream share
    the work space of the matrix library; replayed side by side they would overwrite each other.
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


def as_written() -> contextlib.AbstractContextManager[Any]:
    """Run compiled modules uncompiled inside the block.

    For evaluation between training steps: compiling once more, for another mode and another size
    of batch, takes longer than it saves.
    """
    stance: Any = getattr(torch.compiler, "set_stance", None)  # Since torch 2.6.
    return contextlib.nullcontext() if stance is None else stance("force_eager")
