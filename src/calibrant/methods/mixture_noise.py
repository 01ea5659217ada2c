"""Noise that mixes real features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.methods.noise import Noise, as_features, feature_rows

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["FeatureMixture"]


class FeatureMixture(Noise):
    """The mean of ``parts`` features drawn from the kept examples of the batch.

    These points lie between the classes, where a head sees the least data. They are drawn with
    replacement from the current batch, without a gradient. Beyond the paper; no reference.

    >>> from calibrant.training import Step
    >>> features = torch.tensor([[0.0], [1.0], [99.0]])
    >>> step = Step(torch.zeros(3, 2), torch.tensor([0, 1, -100]), features=features)
    >>> float(FeatureMixture().like(step, torch.Generator()).max()) <= 1
    True
    """

    def __init__(self, parts: int = 4) -> None:
        super().__init__()
        if parts < 1:
            raise InputError(f"FeatureMixture: a mixture has 1 part or more, got {parts}.")
        self.parts = parts

    def like(self, step: Step, generator: torch.Generator) -> Tensor:
        """Return rows that are each the mean of ``parts`` kept rows."""
        rows, kept = feature_rows(step)
        if not len(rows):
            return as_features(rows, step)
        # Without a kept row all rows are candidates, and none counts in the loss.
        weight = (kept | ~kept.any()).to(rows.dtype)
        drawn = torch.multinomial(
            weight, len(rows) * self.parts, replacement=True, generator=generator
        )
        return as_features(rows[drawn].view(len(rows), self.parts, -1).mean(1), step)
