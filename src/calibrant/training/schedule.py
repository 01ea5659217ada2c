"""How long and how fast the lean loop trains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError, unknown_name

__all__ = ["DECAYS", "DTYPES", "OPTIMIZERS", "Schedule"]

OPTIMIZERS = ("adamw", "sgd")
DECAYS = ("linear", "cosine", "step")
DTYPES = ("float32", "tf32", "bfloat16", "float16")
_DROPS = (0.5, 0.75)  # The shares of all steps at which "step" divides the learning rate by ten.


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train. Defaults follow the ∇Acc paper, except the batch."""

    epochs: int = 10
    batch: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: float = 0.0  # share of all steps
    clip: float = 1.0  # largest norm of the gradient; 0: no limit
    # Format of the forward pass; weights and optimizer stay float32. "tf32" is fastest for small
    # encoders: a third of the kernels of a bfloat16 step only cast, and launches dominate the cost.
    dtype: str = "float32"
    accumulate: int = 1  # parts that a batch is split into, to save memory
    optimizer_name: str = "adamw"
    momentum: float = 0.9  # Nesterov momentum of "sgd"
    decay: str = "linear"

    def check(self) -> None:
        """Raise an error for settings that the lean loop does not support."""
        if self.optimizer_name not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer_name, OPTIMIZERS)
        if self.decay not in DECAYS:
            raise unknown_name("decay", self.decay, DECAYS)
        if self.dtype not in DTYPES:
            raise unknown_name("dtype", self.dtype, DTYPES)
        if self.dtype == "float16":
            raise InputError(
                "float16 needs loss scaling, which the lean loop does not do: use bfloat16, "
                "or the Hugging Face Trainer."
            )
        if self.batch % self.accumulate:
            raise InputError(
                f"A batch of {self.batch} cannot be run in {self.accumulate} equal parts."
            )

    def share(self, done: Tensor, total: int) -> Tensor:
        """Return the share of the learning rate after ``done`` steps: warm-up, then decay.

        It decays to 0 linearly or along a cosine; or in steps, to a tenth after half of all
        steps and to a hundredth after three quarters.

        >>> Schedule(warm_up=0.5).share(torch.arange(4), 4)
        tensor([0.5000, 1.0000, 1.0000, 0.5000])
        >>> Schedule(decay="cosine").share(torch.arange(4), 4)
        tensor([1.0000, 0.8536, 0.5000, 0.1464])
        >>> Schedule(decay="step").share(torch.arange(4), 4)
        tensor([1.0000, 1.0000, 0.1000, 0.0100])
        """
        warm = self.warm_up * total
        rising = (done + 1) / warm if warm else torch.ones_like(done)
        left = ((total - done) / (total - warm)).clamp(0, 1)
        if self.decay == "cosine":
            left = (1 - torch.cos(math.pi * left)) / 2
        elif self.decay == "step":
            left = torch.ones_like(left)
            for drop in _DROPS:
                left = torch.where(done < drop * total, left, left / 10)
        return torch.minimum(rising, left).clamp(0, 1)

    def optimizer(self, model: nn.Module, learning_rate: Tensor) -> torch.optim.Optimizer:
        """Return AdamW, or SGD with Nesterov momentum; biases and norms do not decay.

        The learning rate is stored on the device, where fused CUDA kernels read it.
        """
        groups = [
            {
                "params": [p for p in model.parameters() if p.ndim > 1],
                "weight_decay": self.weight_decay,
            },
            {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ]
        fused = learning_rate.device.type == "cuda"
        common: dict[str, Any] = {"lr": learning_rate, "fused": fused}
        if self.optimizer_name == "sgd":
            nesterov = self.momentum > 0
            return torch.optim.SGD(groups, momentum=self.momentum, nesterov=nesterov, **common)
        return torch.optim.AdamW(groups, capturable=fused, **common)

    def clip_gradient(self, parameters: Any) -> None:
        """Scale the gradient down to the largest allowed norm."""
        if self.clip:
            nn.utils.clip_grad_norm_(parameters, self.clip, foreach=True)
