"""The baseline: cross-entropy."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.cross_entropy import cross_entropy
from calibrant.methods.base import ExampleLoss

__all__ = ["CrossEntropy"]


class CrossEntropy(ExampleLoss):
    """−log p_y, the mean over kept examples.

    >>> import torch
    >>> from calibrant.training import Step
    >>> CrossEntropy().loss(Step(torch.zeros(2, 4), torch.tensor([3, -100])))
    tensor(1.3863)
    """

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return Σ −log p_y."""
        return cross_entropy(logits, labels, reduction="sum")
