"""Turn the outputs of a model into the classes of a run: merge several, or add a second one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.training.head_hook import logits_of

__all__ = ["MergedClasses", "OneOutput"]


class MergedClasses(nn.Module):
    """Adds up the probabilities of outputs with the same name: z_c = log Σ_{k of c} exp z_k.

    ``names`` has the class of each output. Classes are in the order in which they first occur.

    >>> model = MergedClasses(nn.Identity(), ("LOC", "PER", "LOC"))
    >>> model.labels, model.merge(torch.tensor([[0.5, 2.0, 0.5]]).log()).exp()
    (('LOC', 'PER'), tensor([[1., 2.]]))
    """

    outside: Tensor  # 0 where an output belongs to a class, −∞ elsewhere.

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        self.labels = tuple(dict.fromkeys(names))
        same = torch.tensor([[name == label for name in names] for label in self.labels])
        outside = torch.zeros(same.shape).masked_fill(~same, -torch.inf)
        self.register_buffer("outside", outside, persistent=False)
        if hasattr(model, "config"):
            self.config = copy.copy(model.config)
            self.config.id2label = dict(enumerate(self.labels))

    def merge(self, logits: Tensor) -> Tensor:
        """Return the logits of the classes from those of the outputs."""
        return torch.logsumexp(logits.unsqueeze(-2) + self.outside, dim=-1)

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return the logits of the classes."""
        return self.merge(logits_of(self.model(**inputs)))


class OneOutput(nn.Module):
    """Gives a model with one output z, whose probability is a sigmoid, two classes: (0, z).

    Their softmax is (1 − σ(z), σ(z)). ``names`` has the negative and the positive class.

    >>> model = OneOutput(nn.Identity(), ("ham", "spam"))
    >>> model.both(torch.tensor([[2.0]])).softmax(-1)[0, 1] == torch.tensor(2.0).sigmoid()
    tensor(True)
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        if hasattr(model, "config"):
            self.config = copy.copy(model.config)
            self.config.id2label = dict(enumerate(self.names))

    def both(self, logits: Tensor) -> Tensor:
        """Return the logits of both classes from that of the positive one."""
        return torch.cat([torch.zeros_like(logits), logits], dim=-1)

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return the logits of both classes."""
        return self.both(logits_of(self.model(**inputs)))
