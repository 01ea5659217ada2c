"""Squared error of the probabilities as task loss."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.brier import mse
from calibrant.methods.base import ExampleLoss

__all__ = ["Mse"]


class Mse(ExampleLoss):
    """Σ_k (p_k − 1[y=k])², the Brier score; the ∇Acc paper writes its task loss so.

    >>> import torch
    >>> from calibrant.training import Step
    >>> Mse().loss(Step(torch.zeros(1, 2), torch.tensor([1])))
    tensor(0.5000)
    """

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return Σ_i Σ_k (p_k − 1[y=k])²."""
        return mse(logits, labels, reduction="sum")
