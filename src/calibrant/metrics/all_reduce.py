"""Sums over the processes of ``torch.distributed``."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require

__all__ = ["sum_over_processes"]


def sum_over_processes(
    arrays: Mapping[str, np.ndarray], group: Any = None, settings: object = None
) -> dict[str, np.ndarray]:
    """Return the sum of each array over all processes; the arrays themselves if there is one.

    Every process must call it, with arrays of the same names, types and shapes and with the same
    ``settings``, which say what the arrays mean. It takes three messages: one that compares all
    this, one of the whole numbers and one of the others.
    """
    torch = require("torch", "torch", "all_reduce")
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return dict(arrays)
    device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
    form = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
    _check_alike(torch, (form, settings), device, group)
    found: dict[str, np.ndarray] = {}
    for whole in (True, False):
        names = [n for n, array in arrays.items() if (array.dtype.kind == "i") == whole]
        if not names:
            continue
        joined = np.concatenate([arrays[name].reshape(-1) for name in names])
        tensor = torch.as_tensor(joined).to(device)
        torch.distributed.all_reduce(tensor, group=group)
        found |= _cut(names, arrays, tensor.cpu().numpy())
    return {name: found[name] for name in arrays}


def _check_alike(torch: Any, about: object, device: str, group: Any) -> None:
    """Refuse sums of different things in every process: they would add up to a wrong number."""
    mark = zlib.crc32(repr(about).encode())
    most = torch.tensor([mark, -mark], device=device)
    torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=group)
    if most.tolist() != [mark, -mark]:
        raise InputError(
            "all_reduce expects the same bins, classes, blocks and kind of weights in every "
            "process, but they differ; a process without rows adds CalibrationState.empty(…)."
        )


def _cut(
    names: list[str], arrays: Mapping[str, np.ndarray], joined: np.ndarray
) -> dict[str, np.ndarray]:
    ends = np.cumsum([arrays[name].size for name in names])[:-1]
    parts = zip(names, np.split(joined, ends), strict=True)
    return {name: part.reshape(arrays[name].shape) for name, part in parts}
