"""How long and how fast the lean loop trains."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calibrant.errors import InputError

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; the defaults are the ∇Acc paper's, but for the batch."""

    epochs: int = 10
    batch: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: float = 0.0  # share of all steps
    clip: float = 1.0
    # Of the forward pass; weights and optimizer stay in float32. For small encoders "tf32" is the
    # quickest: a third of all kernels of a bfloat16 step only cast, and launching them is the cost.
    dtype: str = "float32"
    accumulate: int = 1  # parts that a batch is run in, for less memory

    def check(self) -> None:
        """Raise an error for what the lean loop cannot do."""
        if self.dtype == "float16":
            raise InputError(
                "float16 needs its loss scaled, which the lean loop does not do: take bfloat16, "
                "or the Hugging Face Trainer."
            )
        if self.batch % self.accumulate:
            raise InputError(
                f"A batch of {self.batch} cannot be run in {self.accumulate} equal parts."
            )

    def share(self, done: Tensor, total: int) -> Tensor:
        """The share of the learning rate after ``done`` steps: up in the warm-up, then down to 0.

        >>> Schedule(warm_up=0.5).share(torch.arange(4), 4)
        tensor([0.5000, 1.0000, 1.0000, 0.5000])
        """
        warm = self.warm_up * total
        rising = (done + 1) / warm if warm else torch.ones_like(done)
        falling = (total - done) / (total - warm)
        return torch.minimum(rising, falling).clamp(0, 1)

    def optimizer(self, model: nn.Module, learning_rate: Tensor) -> torch.optim.Optimizer:
        """AdamW with a learning rate on the device; biases and norms do not decay."""
        groups = [
            {
                "params": [p for p in model.parameters() if p.ndim > 1],
                "weight_decay": self.weight_decay,
            },
            {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ]
        fused = learning_rate.device.type == "cuda"
        return torch.optim.AdamW(groups, lr=learning_rate, fused=fused, capturable=fused)
