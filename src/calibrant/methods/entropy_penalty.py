"""The confidence penalty as a method."""

from __future__ import annotations

from torch import Tensor

from calibrant.losses.entropy_penalty import entropy_penalty
from calibrant.methods.base import ExampleLoss

__all__ = ["EntropyPenalty"]


class EntropyPenalty(ExampleLoss):
    """Cross-entropy + λ Σ_k p_k log p_k (ECP; the seminar's ERL is the same).

    >>> import torch
    >>> from calibrant.training import Step
    >>> EntropyPenalty(weight=0.1).loss(Step(torch.zeros(1, 2), torch.tensor([1])))
    tensor(0.6238)
    """

    def __init__(self, weight: float = 0.1) -> None:
        super().__init__()
        self.weight = weight

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""
        return entropy_penalty(logits, labels, self.weight, reduction="sum")
