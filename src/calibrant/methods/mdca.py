"""MDCA and DCA: differences of means, added to the task loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from calibrant.losses.mdca import dca, mdca
from calibrant.methods.wrapper import Regularizer

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["Dca", "Mdca"]


class Mdca(Regularizer):
    """Task loss + λ · mean_k abs(mean p_k − freq_k).

    >>> import torch
    >>> from calibrant.training import Step
    >>> Mdca().term(Step(torch.zeros(2, 2), torch.tensor([1, 1])))
    tensor(0.5000)
    """

    def term(self, step: Step) -> Tensor:
        """Return the MDCA of the kept examples."""
        return mdca(step.logits, step.labels)


class Dca(Regularizer):
    """Task loss + λ · abs(mean c − accuracy).

    >>> import torch
    >>> from calibrant.training import Step
    >>> Dca().term(Step(torch.zeros(2, 2), torch.tensor([1, 1])))
    tensor(0.5000)
    """

    def term(self, step: Step) -> Tensor:
        """Return the DCA of the kept examples."""
        return dca(step.logits, step.labels)
