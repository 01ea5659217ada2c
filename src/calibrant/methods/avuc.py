"""AvUC through the whole model, with a threshold from a warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.avuc import avuc, threshold_from, uncertainty_sums
from calibrant.losses.prediction import Uncertainty
from calibrant.methods.base import Method
from calibrant.methods.wrapper import Regularizer

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["Avuc"]


class Avuc(Regularizer):
    """Task loss + λ · AvUC: be certain where right, uncertain where wrong.

    The threshold between certain and uncertain is ``"warm-up"``: for the first ``warm_up`` losses
    the task is trained alone and the uncertainties are collected, then
    th = (mean u of right + mean u of wrong) / 2 for good; ``"median"``: that of each batch; or a
    number. ``measure`` is the entropy in nats or 1 − c. λ = 1 and a warm-up of 100 are our choice:
    the ∇Acc paper prints neither. ``count_ignored=True`` reproduces its code, in which −100
    positions count as errors.

    Reference: Krishnan & Tickoo, NeurIPS 2020.

    >>> import torch
    >>> from calibrant.training import Step
    >>> step = Step(torch.tensor([[4.0, 0.0], [0.5, 0.0]]), torch.tensor([0, 0]))
    >>> Avuc(threshold=0.3).term(step)
    tensor(0.3394)
    """

    seen: Tensor
    sums: Tensor

    def __init__(
        self,
        task: Method | None = None,
        weight: float = 1.0,
        threshold: float | Literal["warm-up", "median"] = "warm-up",
        warm_up: int = 100,
        measure: Uncertainty = "entropy",
        count_ignored: bool = False,
        across_ranks: bool = False,
    ) -> None:
        super().__init__(task, weight, across_ranks)
        if isinstance(threshold, str) and threshold not in ("warm-up", "median"):
            raise InputError(
                f"Avuc: threshold is 'warm-up', 'median' or a number, got {threshold!r}."
            )
        if threshold == "warm-up" and warm_up < 1:
            raise InputError(f"Avuc: the warm-up lasts 1 loss or more, got {warm_up}.")
        self.threshold = threshold
        self.warm_up = warm_up
        self.measure: Uncertainty = measure
        self.count_ignored = count_ignored
        # On the device, so that a captured step can count and collect without the host.
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("sums", torch.zeros(4, dtype=torch.float64))

    def term(self, step: Step) -> Tensor:
        """Return the AvUC of the kept examples; 0 during the warm-up."""
        if self.threshold == "warm-up":
            self._collect(step)
            over = self.seen > self.warm_up
            return self._term(step, threshold_from(self.sums)).where(over, 0)
        return self._term(step, None if isinstance(self.threshold, str) else self.threshold)

    def _term(self, step: Step, threshold: float | Tensor | None) -> Tensor:
        return avuc(
            step.logits,
            step.labels,
            threshold,
            measure=self.measure,
            count_ignored=self.count_ignored,
        )

    @torch.no_grad()
    def _collect(self, step: Step) -> None:
        """Add the uncertainties of this batch while the warm-up lasts."""
        self.to(step.logits.device)
        self.seen += 1
        now = uncertainty_sums(step.logits, step.labels, measure=self.measure)
        self.sums += now.where(self.seen <= self.warm_up, 0)
