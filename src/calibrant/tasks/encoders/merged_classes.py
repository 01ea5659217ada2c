"""Merge outputs of a model that belong to the same class of a run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.training.head_hook import logits_of

__all__ = ["MergedClasses"]


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
