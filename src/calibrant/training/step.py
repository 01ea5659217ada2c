"""The view of one forward pass that a method receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import IGNORED

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """One (micro-)batch after the forward pass.

    ``logits`` (…, K) and ``labels`` (…), where −100 is ignored, are always there; the rest is
    filled by ``HeadHook.step``. ``features`` is what the head got, and ``head`` runs the head again
    on other features. ``gradient_scale`` says by how much the hook multiplies the gradient that
    leaves the head towards the encoder.

    Normalisation. Without ``num_items`` a loss is the mean over this batch's kept examples. With
    it, a loss is the sum over kept examples divided by ``num_items``, the count of kept examples
    in all micro-batches of one optimizer step: the losses of the micro-batches then add up to the
    loss of one large batch. ``last`` marks the micro-batch that completes it.

    ``examples`` holds the index of each example in the data set, for methods that keep a history;
    ``holdout`` is a step on held-out data, for methods that learn from it, and ``model`` with
    ``inputs`` let those methods look ahead through the whole model.

    >>> step = Step(torch.zeros(3, 2), torch.tensor([1, -100, 0]))
    >>> int(step.count), int(step.normalizer), step.weigh(torch.tensor(4.0))
    (2, 2, tensor(4.))
    >>> step = Step(torch.zeros(3, 2), torch.tensor([1, -100, 0]), num_items=8)
    >>> int(step.normalizer), step.weigh(torch.tensor(4.0))
    (8, tensor(1.))
    """

    logits: Float[Tensor, "*batch classes"]
    labels: Int[Tensor, "*batch"]
    features: Float[Tensor, "*batch width"] | None = None
    head: Callable[..., Tensor] | None = None
    gradient_scale: int = 1
    num_items: Tensor | int | None = None
    last: bool | None = None
    examples: Int[Tensor, "*batch"] | None = None
    holdout: Step | None = None
    model: torch.nn.Module | None = None
    inputs: Mapping[str, Any] | tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.logits.shape[:-1] != self.labels.shape:
            raise InputError(
                f"A step takes logits (…, K) and labels (…): got {tuple(self.logits.shape)} "
                f"and {tuple(self.labels.shape)}; classes come last."
            )

    @property
    def classes(self) -> int:
        """The number of classes K."""
        return self.logits.shape[-1]

    @property
    def channels_last(self) -> Tensor:
        """Return the features with their width last: a pooling head gets images (b, d, h, w)."""
        if self.features is None:
            raise InputError("This step has no features: make it with attach(model, method).")
        images = self.labels.ndim == 1 and self.features.ndim > 3
        return self.features.movedim(1, -1) if images else self.features

    @cached_property
    def kept(self) -> Tensor:
        """A mask that is True where the label counts."""
        return self.labels != IGNORED

    @cached_property
    def count(self) -> Tensor:
        """The number of kept examples, left on the device."""
        return self.kept.sum()

    @cached_property
    def normalizer(self) -> Tensor | int:
        """The divisor of a sum over kept examples; at least 1, so an empty batch gives 0."""
        if isinstance(self.num_items, int):  # A plain number stays one: no copy to the device.
            return max(self.num_items, 1)
        count = self.count if self.num_items is None else self.num_items.to(self.labels.device)
        return count.clamp(min=1)

    def weigh(self, mean: Tensor) -> Tensor:
        """Weigh a batch mean in the loss: times kept / num_items; unchanged without num_items."""
        # Keep this order: the quotient of two integers would be float32 and round.
        return mean if self.num_items is None else mean * self.count / self.normalizer
