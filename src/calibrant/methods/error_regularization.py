"""Error regularisation (Abstention, ABS): through the whole model, or as a part of HeadNoise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.error_regularization import error_regularization
from calibrant.methods.base import Method
from calibrant.methods.wrapper import Regularizer

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["ErrorRegularization"]


class ErrorRegularization(Regularizer):
    """Task loss + λ · mean over pairs of max(0, c_i − c_j)² · 1[e_i > e_j]; λ 0.05.

    ``error`` e is ``"loss"`` (the formula), ``"wrong"`` (the original code) or ``"history"``: 1 −
    the share of times that the example was right so far. The last needs ``examples``, the size of
    the data set (``calibrant train`` and the lean loop know it: :meth:`expect`), and
    ``step.examples``, the index of each example in it. ``normalize=False`` is
    the raw sum. ``count_ignored=True`` reproduces the code of the ∇Acc paper, in which −100
    positions count as errors.

    Reference: Xin et al., The Art of Abstention, ACL 2021.

    >>> from calibrant.training import Step
    >>> step = Step(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 0]))
    >>> ErrorRegularization().term(step)
    tensor(0.0224)
    """

    right: Tensor
    seen: Tensor

    def __init__(
        self,
        task: Method | None = None,
        weight: float = 0.05,
        error: Literal["loss", "wrong", "history"] = "loss",
        normalize: bool = True,
        examples: int = 0,
        count_ignored: bool = False,
        across_ranks: bool = False,
    ) -> None:
        super().__init__(task, weight, across_ranks)
        if error == "history" and across_ranks:
            raise InputError(
                "ErrorRegularization: with error='history' each rank keeps its own history "
                "(across_ranks=False)."
            )
        self.error: Literal["loss", "wrong", "history"] = error
        self.needs_examples = error == "history"
        self.normalize = normalize
        self.count_ignored = count_ignored
        self.expect(examples)

    def expect(self, examples: int) -> None:
        """Allocate the history of this many examples, none of them seen yet."""
        self.register_buffer("right", torch.zeros(examples))
        self.register_buffer("seen", torch.zeros(examples))

    def term(self, step: Step) -> Tensor:
        """Return the mean squared violation of the kept examples."""
        return error_regularization(
            step.logits,
            step.labels,
            self._history(step) if self.error == "history" else self.error,
            normalize=self.normalize,
            count_ignored=self.count_ignored,
        )

    @torch.no_grad()
    def _history(self, step: Step) -> Tensor:
        """Count this prediction and return 1 − the share of right ones."""
        if step.examples is None or not len(self.right):
            raise InputError(
                "ErrorRegularization: error='history' takes examples=<size of the data set>, and "
                "step.examples, the index of each example in it."
            )
        self.to(step.logits.device)
        index = step.examples.reshape(-1).where(step.kept.reshape(-1), 0)
        kept = step.kept.reshape(-1).float()
        now = (step.logits.argmax(-1) == step.labels).reshape(-1).float()
        self.right.index_add_(0, index, now * kept)
        self.seen.index_add_(0, index, kept)
        share = self.right[index] / self.seen[index].clamp(min=1)
        return (1 - share * kept).view(step.labels.shape)  # Ignored positions are never right.
