"""AdamW for several runs at once, each with its own gradient scale.

It updates the rows of one large tensor as :class:`torch.optim.AdamW` (Loshchilov & Hutter 2019):

    m ← β₁ m + (1 − β₁) s g,  v ← β₂ v + (1 − β₂) (s g)²,
    w ← (1 − η d) w − η m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)

with s the run's scale, which clips its gradient, and d the weight decay of matrices. On CUDA one
kernel (:mod:`.adamw_kernel`, in Triton) reads and writes every number once, the copy in bfloat16
included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from calibrant.losses.fused import has_triton
from calibrant.training.stacked.weights import Group

__all__ = ["StackedAdamW", "squared_norms"]

BETAS = (0.9, 0.999)
EPSILON = 1e-8
_BLOCK = 1024  # The number of values per program,
_PART = 32  # and the number of such blocks per program that sums squares.


class StackedAdamW:
    """AdamW over ``groups``; learning rate and step count are read from their tensors.

    ``kernels`` says whether Triton computes the steps; the default is on a GPU that has it.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        weight_decay: float,
        learning_rate: Tensor,
        done: Tensor,
        *,
        kernels: bool | None = None,
    ) -> None:
        self.kernels = done.is_cuda and has_triton() if kernels is None else kernels
        self.runs, self.weight_decay = len(groups[0].master), weight_decay
        self.groups = [group for group in groups if group.leaf.requires_grad]
        self.learning_rate, self.done = learning_rate, done
        self.moments = [
            (torch.zeros_like(group.master), torch.zeros_like(group.master))
            for group in self.groups
        ]
        self.betas = torch.tensor(BETAS, dtype=torch.float64, device=done.device)

    def squares(self) -> Tensor:
        """Return the squared norm of each run's gradient."""
        gradients = [group.leaf.grad for group in self.groups if group.leaf.grad is not None]
        found = [
            squared_norms(gradient) if self.kernels else gradient.float().square().sum(1)
            for gradient in gradients
        ]
        return torch.stack(found).sum(0) if found else self.done.new_zeros(self.runs)

    @torch.no_grad()
    def step(self, scale: Tensor) -> None:
        """Take one step with every run's gradient times its ``scale``."""
        corrections = 1 - self.betas ** self.done.double()
        for group, moments in zip(self.groups, self.moments, strict=True):
            if group.leaf.grad is not None:
                update = self._in_one_kernel if self.kernels else self._in_torch
                update(group, *moments, scale, corrections)

    def _in_one_kernel(
        self, group: Group, first: Tensor, second: Tensor, scale: Tensor, corrections: Tensor
    ) -> None:
        assert group.leaf.grad is not None
        runs, size = group.master.shape
        _kernels().adamw[math.ceil(size / _BLOCK), runs](
            group.master, group.leaf, group.leaf.grad.contiguous(), first, second, scale,
            corrections, self.learning_rate, size, group.decayed, DECAY=self.weight_decay,
            EPSILON=EPSILON, FIRST=BETAS[0], SECOND=BETAS[1],
            COPY=group.leaf is not group.master, BLOCK=_BLOCK,
        )  # fmt: skip

    def _in_torch(
        self, group: Group, first: Tensor, second: Tensor, scale: Tensor, corrections: Tensor
    ) -> None:
        assert group.leaf.grad is not None
        master, gradient = group.master, group.leaf.grad.float() * scale[:, None]
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        master[:, : group.decayed] *= 1 - self.learning_rate * self.weight_decay
        spread = (second / corrections[1]).sqrt_().add_(EPSILON)
        master -= self.learning_rate * (first / corrections[0]) / spread
        if group.leaf is not master:
            group.leaf.copy_(master)

    def rewind(self) -> None:
        """Reset to the state before the first step."""
        for moments in self.moments:
            for moment in moments:
                moment.zero_()


def squared_norms(gradient: Tensor, block: int = _BLOCK, part: int = _PART) -> Tensor:
    """Return the squared norm of each row, by a kernel that sums ``part`` blocks per program."""
    gradient = gradient.contiguous()
    runs, size = gradient.shape
    parts = math.ceil(size / (block * part))
    sums = gradient.new_empty(runs, parts, dtype=torch.float32)
    _kernels().add_squares[parts, runs](gradient, sums, size, BLOCK=block, PART=part)
    return sums.sum(1)


@cache
def _kernels() -> Any:
    return import_module("calibrant.training.stacked.adamw_kernel")
