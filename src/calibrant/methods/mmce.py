"""MMCE, plain and weighted, added to the task loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from calibrant.losses.mmce import mmce, weighted_mmce
from calibrant.methods.base import Method
from calibrant.methods.wrapper import Regularizer

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["Mmce", "WeightedMmce"]


class _KernelRegularizer(Regularizer):
    """A regulariser with the bandwidth of a Laplacian kernel."""

    def __init__(
        self,
        task: Method | None = None,
        weight: float = 2.0,
        bandwidth: float = 0.4,
        across_ranks: bool = False,
    ) -> None:
        super().__init__(task, weight, across_ranks)
        self.bandwidth = bandwidth


class Mmce(_KernelRegularizer):
    """Task loss + λ · MMCE, a kernel distance between confidence and correctness; λ 2.

    >>> import torch
    >>> from calibrant.training import Step
    >>> Mmce().term(Step(torch.zeros(1, 2), torch.tensor([1])))
    tensor(0.5000)
    """

    def term(self, step: Step) -> Tensor:
        """Return the MMCE of the kept examples."""
        return mmce(step.logits, step.labels, self.bandwidth)


class WeightedMmce(_KernelRegularizer):
    """Task loss + λ · MMCE in which right and wrong examples weigh the same; λ 2.

    >>> import torch
    >>> from calibrant.training import Step
    >>> WeightedMmce().term(Step(torch.zeros(3, 2), torch.tensor([0, 0, 1])))
    tensor(0.)
    """

    def term(self, step: Step) -> Tensor:
        """Return the weighted MMCE of the kept examples."""
        return weighted_mmce(step.logits, step.labels, self.bandwidth)
