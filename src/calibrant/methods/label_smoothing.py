"""Label smoothing as a method."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.label_smoothing import label_smoothing
from calibrant.methods.base import ExampleLoss

__all__ = ["LabelSmoothing"]


class LabelSmoothing(ExampleLoss):
    """Cross-entropy against (1−α)·onehot + α/K, or α/(K−1) on the other classes alone.

    >>> import torch
    >>> from calibrant.training import Step
    >>> LabelSmoothing(alpha=0.3).loss(Step(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0])))
    tensor(0.6395)
    """

    def __init__(self, alpha: float = 0.05, others_only: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.others_only = others_only

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""
        return label_smoothing(
            logits, labels, self.alpha, others_only=self.others_only, reduction="sum"
        )
