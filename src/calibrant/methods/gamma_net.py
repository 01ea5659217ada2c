"""γ-Net: one focal γ for each example."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError

__all__ = ["GammaNet"]


class GammaNet(nn.Module):
    """γ = abs(x̃ W) / τ with x̃ = softmax(x A) Aᵀ, for features x (…, d), A (d × k), W (d × 1).

    ``clusters`` is k, ``temperature`` τ. The first features set d. A starts from N(0, 1/d)
    and W from N(0, 1), so that γ begins between 0.2, where the clusters share an example, and 0.8,
    where one has it. The slides print none of these. With τ = 0.1 γ begins ten times as high, and
    learning stops where it grows: the gradient of focal loss vanishes.

    Reference: Wang & Golebiowski, Towards Unbiased Calibration using Meta-Regularization,
    TMLR 2024.

    >>> GammaNet()(torch.zeros(3, 5)).shape
    torch.Size([3])
    """

    A: nn.Parameter | None
    W: nn.Parameter | None

    def __init__(self, clusters: int = 16, temperature: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        if clusters < 1 or not temperature > 0:
            raise InputError(
                "γ-Net takes 1 cluster or more and a temperature above 0; "
                f"got {clusters} and {temperature}."
            )
        self.clusters = clusters
        self.temperature = temperature
        self.seed = seed
        self.register_parameter("A", None)
        self.register_parameter("W", None)

    def forward(self, features: Tensor) -> Tensor:
        """Return γ (…) for features (…, d), in float32 or better."""
        wide = features if features.dtype == torch.float64 else features.float()
        if self.A is None:
            self._build(wide.shape[-1])
            self.to(wide)
        elif self.A.device != wide.device:  # It was loaded before any features showed the device.
            self.to(wide.device)
        assert self.A is not None
        assert self.W is not None
        rebuilt = (wide @ self.A).softmax(-1) @ self.A.T
        return (rebuilt @ self.W).squeeze(-1).abs() / self.temperature

    def rewind(self) -> None:
        """Restore the initial weights, in place."""
        if self.A is not None and self.W is not None:
            drawn = self._draw(len(self.A))
            with torch.no_grad():
                self.A.copy_(drawn[0])
                self.W.copy_(drawn[1])

    def _build(self, width: int) -> None:
        self.A, self.W = (nn.Parameter(values) for values in self._draw(width))

    def _draw(self, width: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        first = width**-0.5 * torch.randn(width, self.clusters, generator=generator)
        return first, torch.randn(width, 1, generator=generator)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # The saved weights give the width before any features arrive.
        if self.A is None and prefix + "A" in state_dict:
            self._build(len(state_dict[prefix + "A"]))
            self.to(state_dict[prefix + "A"].dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)
