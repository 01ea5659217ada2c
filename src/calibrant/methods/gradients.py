"""Two autograd functions that give encoder and head different multiples of one backward pass."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

__all__ = ["report", "scale_gradient"]


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


class _Report(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, total: Tensor, shown: Tensor, divisor: int) -> Tensor:  # noqa: ARG004
        ctx.divisor = divisor
        return shown.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        return gradients[0] / ctx.divisor, None, None


def scale_gradient(features: Tensor, factor: int) -> Tensor:
    """Return the input unchanged; the backward pass multiplies the gradient by ``factor``.

    It is a separate function because ``n·f − (n−1)·f.detach()`` would round in half precision.

    >>> features = torch.ones(2, requires_grad=True)
    >>> scale_gradient(features, 3).sum().backward()
    >>> features.grad
    tensor([3., 3.])
    """
    return cast(Tensor, _ScaleGradient.apply(features, factor))  # type: ignore[no-untyped-call]


def report(total: Tensor, shown: Tensor, divisor: int) -> Tensor:
    """Return a scalar with the value ``shown`` and the gradient of ``total / divisor``.

    Every loop then logs the undivided task loss without knowing the method.

    >>> weight = torch.tensor(2.0, requires_grad=True)
    >>> loss = report(4 * weight, weight.detach(), 2)
    >>> loss.backward()
    >>> loss.item(), weight.grad.item()
    (2.0, 2.0)
    """
    return cast(Tensor, _Report.apply(total, shown, divisor))  # type: ignore[no-untyped-call]
