"""Attention of several models at once: their queries, keys and values as one larger batch.

The fused attention kernels have no rule for :func:`torch.func.vmap`, or one that fails with a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

__all__ = ["StackedAttention"]

_SHORT = 48  # Up to this many keys matrix products beat the fused kernels, whose tiles have 64.


class StackedAttention(TorchFunctionMode):
    """Let ``scaled_dot_product_attention`` be mapped over a new first axis inside the block."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Intercept every call; change attention only."""
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        return _call(*args, **kwargs)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    options = {
        "dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa,
    }  # fmt: skip
    output: Tensor = _Attention.apply(query, key, value, attn_mask, options)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    """Attention with a rule for vmap; its gradient is that of the functions the rule calls."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        query, key, value, mask, options = args
        output: Tensor = scaled_dot_product_attention(query, key, value, mask, **options)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError("Attention outside of a stack goes without this function.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Tensor, int]:
        runs = info.batch_size

        def joined(value: Tensor, dim: int | None) -> Tensor:
            """Join runs and batch into one axis."""
            value = value.expand(runs, *value.shape) if dim is None else value.movedim(dim, 0)
            return value.flatten(0, 1)

        *tensors, mask, options = args
        query, key, value = map(joined, tensors, in_dims[:3])
        if mask is not None:
            at = None if in_dims[3] is None else 0
            mask = mask if at is None else mask.movedim(in_dims[3], 0)
            batch = query.shape[0] // runs  # A mask may have a batch of 1 for all.
            mask = joined(mask.expand(*mask.shape[:-4], batch, *mask.shape[-3:]), at)
        short = key.shape[-2] <= _SHORT and mask is not None and mask.dtype == torch.bool
        attend = _in_plain_steps if short else scaled_dot_product_attention
        output = attend(query, key, value, mask, **options)
        return output.reshape(runs, -1, *output.shape[1:]), 0


def _in_plain_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    dropout_p: float,
    scale: float | None,
    **_: Any,
) -> Tensor:
    """Return softmax(q kᵀ · scale) v with dropout, from plain matrix products."""
    scale = key.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)
    # Not −∞: a window that is all padding would have no position to attend to.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return dropout(scores.softmax(-1), dropout_p) @ value
