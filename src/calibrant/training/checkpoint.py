"""Checkpoints: everything that determines the rest of a training run, in one atomic file.

States are restored in place if possible: a captured CUDA graph reads and writes the memory
that it was captured with.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.methods.base import Method
from calibrant.methods.random_stream import Stream
from calibrant.outputs import new_file

__all__ = [
    "is_static",
    "method_state",
    "method_streams",
    "method_tensors",
    "on_host",
    "optimizer_state",
    "read_checkpoint",
    "restore_method",
    "restore_optimizer",
    "restore_tensors",
    "rewind_method",
    "write_checkpoint",
]


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the checkpoint at ``path`` atomically: a killed process leaves the previous one."""
    # Open the file in Python, whose error gives the reason; torch's own does not.
    with new_file(path, overwrite=True) as unfinished, unfinished.open("wb") as file:
        torch.save(dict(content), file)


def read_checkpoint(path: Path, device: str | torch.device = "cpu") -> dict[str, Any] | None:
    """Read the last checkpoint onto ``device``, or return None if there is none."""
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises many error types for a file that is not a checkpoint.
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}): remove it to start again."
        ) from None
    return content


def is_static(method: Method) -> bool:
    """Whether all changing state of ``method`` is in persistent tensors and random streams.

    Counters and averages in Python attributes, and work on the host, would be frozen by a CUDA
    graph. State of another kind, such as an optimizer's, is allowed if the method can rewind
    it in place, but not together with random streams: loading it would replace their generators.
    """
    parts = [part for part in method.modules() if not isinstance(part, Stream)]
    more = [part for part in parts if _has_more(part)]
    kept = not more or (all(map(_rewinds, more)) and not any(method_streams(method)))
    return kept and all(part.on_device for part in parts if isinstance(part, Method))


def _has_more(part: nn.Module) -> bool:
    """Whether the method has state beyond parameters, buffers and random streams."""
    return type(part).get_extra_state is not nn.Module.get_extra_state


def _rewinds(part: nn.Module) -> bool:
    return isinstance(part, Method) and type(part).rewind is not Method.rewind


def _in_place(method: Method) -> bool:
    """Whether the state consists only of parameters, buffers and random streams."""
    parts = (part for part in method.modules() if not isinstance(part, Stream))
    return is_static(method) and not any(_has_more(part) for part in parts)


def rewind_method(method: Method, fresh: Method) -> None:
    """Reset a static method to the state of ``fresh``, in place."""
    start = method_tensors(fresh)
    current = {name: value for name, value in method_tensors(method).items() if name in start}
    restore_tensors(current, start)
    for part in method.modules():
        if isinstance(part, Method):
            part.rewind()


def method_streams(method: Method) -> Iterator[Stream]:
    """Return the random streams of a method and its parts."""
    return (part for part in method.modules() if isinstance(part, Stream))


def method_tensors(method: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name."""
    return {
        name: value.detach()
        for name, value in [*method.named_parameters(), *method.named_buffers()]
    }


def method_state(method: Method, device: torch.device) -> dict[str, Any]:
    """Return the state that :func:`restore_method` takes."""
    if not _in_place(method):
        return {"whole": copy.deepcopy(method.state_dict())}
    streams = [stream.generator(device).get_state() for stream in method_streams(method)]
    return {"tensors": method_tensors(method), "streams": streams}


def restore_method(method: Method, state: Mapping[str, Any], device: torch.device) -> None:
    """Restore a static method in place; load any other like a plain module."""
    if "whole" in state:
        method.load_state_dict(state["whole"])
        method.to(device)
        return
    restore_tensors(method_tensors(method), state["tensors"])
    for stream, saved in zip(method_streams(method), state["streams"], strict=True):
        stream.generator(device).set_state(saved.cpu())


def on_host(state: Any) -> Any:
    """Copy every tensor in ``value`` to the host.

    >>> on_host({"a": [torch.ones(1), 2]})
    {'a': [tensor([1.]), 2]}
    """
    if isinstance(state, Tensor):
        return state.detach().cpu().clone()
    if isinstance(state, Mapping):
        return {name: on_host(value) for name, value in state.items()}
    return [on_host(value) for value in state] if isinstance(state, (list, tuple)) else state


def restore_tensors(current: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Copy the saved values into the tensors of the same names."""
    with torch.no_grad():
        for name, value in current.items():
            value.copy_(saved[name])


def optimizer_state(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the state of each parameter, in order; empty before the first step."""
    return [dict(optimizer.state.get(p, {})) for p in _parameters(optimizer)]


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    """Restore in place, or as new tensors if no step has made any yet."""
    for parameter, values in zip(_parameters(optimizer), saved, strict=True):
        state = optimizer.state[parameter]
        for name, value in values.items():
            if name in state:
                state[name].copy_(value)
            else:  # A step count that lives on the host must stay there.
                place = "cpu" if value.ndim == 0 and not _counts_on_device(optimizer) else None
                state[name] = value.clone().to(place or parameter.device)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _counts_on_device(optimizer: torch.optim.Optimizer) -> bool:
    group = optimizer.param_groups[0]
    return bool(group.get("capturable") or group.get("fused"))
