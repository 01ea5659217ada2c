"""The one torch operation of the maps that ONNX lacks: look-up in a sorted table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxscript
import torch

__all__ = ["translations"]

op: Any = onnxscript.opset18  # Its own types are too narrow for traced values.
_INT64 = 7  # onnx.TensorProto.INT64


def translations() -> dict[Any, Callable[..., Any]]:
    """Torch operation → function that builds its ONNX nodes, for ``torch.onnx.export``."""
    return {torch.ops.aten.searchsorted.Tensor: searchsorted}


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Count the entries of a sorted table below each value (``right``: at most the value).

    It unrolls a binary search: log₂ m steps of a few nodes and memory for the values alone;
    comparing every value with every entry would take m times that. The table has shape (m,), or
    (…, m) with the leading axes of the values.
    """
    if sorter is not None or out_int32:
        raise NotImplementedError("searchsorted with sorter or out_int32")
    size = int(sorted_sequence.shape[-1])
    shared = len(sorted_sequence.shape) == 1
    below = op.LessOrEqual if right or side == "right" else op.Less
    same = op.Cast(op.Equal(values, values), to=_INT64)
    count = op.Mul(same, op.Constant(value_int=0))  # Zeros of the shape of the values.
    for step in (1 << bit for bit in reversed(range(size.bit_length()))):
        ahead = op.Add(count, op.Constant(value_int=step))
        inside = op.LessOrEqual(ahead, op.Constant(value_int=size))
        last = op.Constant(value_int=size - 1)
        index = op.Min(op.Sub(ahead, op.Constant(value_int=1)), last)
        entry = (
            op.Gather(sorted_sequence, index)
            if shared
            else op.GatherElements(sorted_sequence, index, axis=-1)
        )
        count = op.Where(op.And(inside, below(entry, values)), ahead, count)
    return count
