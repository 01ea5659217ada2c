"""Focal loss as a method, with one γ or with FLSD's two."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.focal import flsd, focal
from calibrant.methods.base import ExampleLoss

__all__ = ["Flsd", "Focal"]


class Focal(ExampleLoss):
    """−(1−p_y)^γ log p_y.

    >>> import torch
    >>> from calibrant.training import Step
    >>> Focal(gamma=2.0).loss(Step(torch.zeros(1, 2), torch.tensor([1])))
    tensor(0.1733)
    """

    def __init__(self, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = gamma

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""
        return focal(logits, labels, self.gamma, reduction="sum")


class Flsd(ExampleLoss):
    """Focal loss with γ = 5 where p_y < 0.2, else 3 (FLSD-53).

    >>> import torch
    >>> from calibrant.training import Step
    >>> Flsd().loss(Step(torch.zeros(1, 2), torch.tensor([1])))
    tensor(0.0866)
    """

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""
        return flsd(logits, labels, reduction="sum")
