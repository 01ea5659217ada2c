"""One batch shared by several processes, each with a copy of the model (data parallel).

Every process plans the same batches and takes its share of each. A loss is a sum over kept
examples divided by their number in the whole batch (``Step.num_items``), so the *sum* of the
processes' gradients is the gradient of the whole batch, however unevenly kept examples fall.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from calibrant.errors import InputError
from calibrant.methods.random_stream import rank

__all__ = [
    "add_up",
    "add_up_gradients",
    "check_shares",
    "first_says",
    "gather",
    "join_processes",
    "leave_processes",
    "match_buffers",
    "rank",
    "share_of",
    "wait_for_all",
    "world",
]


def world() -> int:
    """Return the number of processes, 1 without ``torch.distributed``.

    >>> world(), rank()
    (1, 0)
    """
    ready = dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if ready else 1


def join_processes(device: str) -> str:
    """Join the processes that torchrun started; return the device of this process."""
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if device != "cpu":
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # If imported later, its functions would keep our group as their default.
        importlib.import_module("torch.distributed.nn.functional")
        # Use two backends: tensors are summed on their device, small objects travel via the host.
        dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl")
    return device


def leave_processes() -> None:
    """Leave the process group and end its threads.

    A Gloo thread that needs the interpreter during its shutdown may abort the process. Threads
    end with the last reference to the group, of which wrapped models hold some, in cycles.
    """
    if dist.is_available() and dist.is_initialized():
        gc.collect()
        dist.destroy_process_group()


def check_shares(batch: int, parts: int) -> None:
    """Raise an error unless all processes get equal shares that split into equal parts."""
    if batch % (world() * parts):
        raise InputError(
            f"A batch of {batch} cannot be shared by {world()} processes in {parts} part(s) each."
        )


def share_of(rows: Tensor) -> Tensor:
    """Return every ``world``-th row from this rank on: this spreads padding evenly."""
    return rows[rank() :: world()]


def add_up_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace each gradient by the sum over processes, all in one message."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    joined = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(joined)
    parts = torch.split(joined, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def add_up(value: Tensor) -> Tensor:
    """Return the sum over processes; with one process, the value itself."""
    if world() == 1:
        return value
    total = value.clone()
    dist.all_reduce(total)
    return total


def match_buffers(model: nn.Module) -> None:
    """Copy the buffers of the first process, such as running means, to all others, as DDP does."""
    if world() > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)


def gather(content: Any) -> list[Any]:
    """Return the contents of all processes by rank; tensors in them should be on the host."""
    found: list[Any] = [content]
    if world() > 1:
        found = [None] * world()
        dist.all_gather_object(found, content)
    return found


def first_says(content: Any) -> Any:
    """Return the first process's value in every process, so that all act alike."""
    if world() == 1:
        return content
    shared = [content]
    dist.broadcast_object_list(shared, src=0)
    return shared[0]


def wait_for_all() -> None:
    """Wait until every process arrives here."""
    if world() > 1:
        dist.barrier()
