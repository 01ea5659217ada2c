"""The noise that HeadNoise feeds the head: the interface, the paper's Gaussian, mixtures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["FeatureMixture", "Gaussian", "Noise", "as_features", "feature_rows"]


class Noise(nn.Module, ABC):
    """A source of head inputs that belong to no class.

    ``like`` returns a tensor of the shape, dtype and device of ``step.features`` and draws all its
    random numbers from ``generator``. It must not make the host wait for the device.

    >>> class Zeros(Noise):
    ...     def like(self, step, generator):
    ...         return torch.zeros_like(step.features)
    >>> from calibrant.methods import CrossEntropy, HeadNoise
    >>> HeadNoise(CrossEntropy(), noise=Zeros()).noise
    Zeros()
    """

    @abstractmethod
    def like(self, step: Step, generator: torch.Generator) -> Tensor:
        """Return noise to use in place of ``step.features``."""


class Gaussian(Noise):
    """N(0, scale²) in every coordinate; the paper's ẑ ~ N(0, I) by default.

    >>> from calibrant.training import Step
    >>> step = Step(torch.zeros(2, 3), torch.tensor([0, 1]), features=torch.zeros(2, 5))
    >>> Gaussian().like(step, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 5])
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def like(self, step: Step, generator: torch.Generator) -> Tensor:
        """Return independent normal numbers."""
        assert step.features is not None
        noise = torch.empty_like(step.features, requires_grad=False)
        return noise.normal_(0.0, self.scale, generator=generator)


def feature_rows(step: Step) -> tuple[Tensor, Tensor]:
    """Return the features as float32 (n, d) rows, 0 where ignored, and a mask of the kept rows."""
    features = step.channels_last.detach()
    extra = features.ndim - 1 - step.labels.ndim
    if extra < 0 or features.shape[: step.labels.ndim] != step.labels.shape:
        raise InputError(
            f"Noise that looks at the features takes them as (…, d) for labels (…): got "
            f"{tuple(features.shape)} and {tuple(step.labels.shape)}."
        )
    kept = step.kept[(..., *[None] * extra)].expand(features.shape[:-1])
    wide = features if features.dtype == torch.float64 else features.float()
    return wide.where(kept.unsqueeze(-1), 0).reshape(-1, wide.shape[-1]), kept.reshape(-1)


def as_features(rows: Tensor, step: Step) -> Tensor:
    """Return rows (n, d) in the shape and dtype of the features."""
    assert step.features is not None
    features = step.channels_last
    shaped = rows.to(features.dtype).view(features.shape)
    return shaped if features is step.features else shaped.movedim(-1, 1)


class FeatureMixture(Noise):
    """The mean of ``parts`` features drawn from the kept examples of the batch.

    These points are between the classes, where a head sees the least data. They are drawn with
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
