"""Margin-based label smoothing as a method."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.margin_smoothing import margin_smoothing
from calibrant.methods.base import ExampleLoss

__all__ = ["MarginSmoothing"]


class MarginSmoothing(ExampleLoss):
    """Cross-entropy + λ Σ_k max(0, max_j l_j − l_k − m); m 10 for images, 6 for text.

    With many classes use ``class_mean``: see :func:`~calibrant.losses.margin_smoothing`.

    >>> import torch
    >>> from calibrant.training import Step
    >>> step = Step(torch.tensor([[12.0, 0.0, 0.0]]), torch.tensor([0]))
    >>> MarginSmoothing(weight=0.1, margin=10).loss(step)
    tensor(0.4000)
    """

    def __init__(self, weight: float = 0.1, margin: float = 10.0, class_mean: bool = False) -> None:
        super().__init__()
        self.weight = weight
        self.margin = margin
        self.class_mean = class_mean

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""
        return margin_smoothing(
            logits,
            labels,
            self.weight,
            self.margin,
            class_mean=self.class_mean,
            reduction="sum",
        )
