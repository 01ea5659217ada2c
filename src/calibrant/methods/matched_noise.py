"""Noise with the mean and covariance of the features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.methods.noise import Noise, as_features, feature_rows

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["MatchedGaussian"]


class MatchedGaussian(Noise):
    """N(μ, Σ) with the running mean and covariance of the kept features.

    N(0, I) is far from the features of most encoders, where the head is easily taught to be
    unsure; this noise is among them. ``covariance`` is "diagonal" or "full"; the Cholesky factor
    of the full one is renewed every ``refresh`` steps. ``momentum`` is the weight of the newest
    batch. Each rank follows its own batches. Beyond the paper; no reference.

    >>> from calibrant.training import Step
    >>> step = Step(torch.zeros(4, 3), torch.zeros(4, dtype=int), features=torch.full((4, 2), 7.0))
    >>> MatchedGaussian().like(step, torch.Generator())  # no spread yet: all at the mean
    tensor([[7., 7.], [7., 7.], [7., 7.], [7., 7.]])
    """

    def __init__(
        self,
        covariance: Literal["diagonal", "full"] = "diagonal",
        momentum: float = 0.1,
        refresh: int = 20,
    ) -> None:
        super().__init__()
        if covariance not in ("diagonal", "full"):
            raise InputError(
                f"MatchedGaussian: covariance is diagonal or full, got {covariance!r}."
            )
        if not 0 < momentum <= 1 or refresh < 1:
            raise InputError(
                "MatchedGaussian: momentum is above 0 and up to 1, refresh 1 step or more; "
                f"got {momentum} and {refresh}."
            )
        self.covariance = covariance
        self.momentum = momentum
        self.refresh = refresh
        self._running: dict[str, Any] = {"age": 0}

    def like(self, step: Step, generator: torch.Generator) -> Tensor:
        """Return μ + L z with z ~ N(0, I) and L Lᵀ = Σ."""
        rows, kept = feature_rows(step)
        self._follow(rows, kept)
        noise = torch.empty_like(rows).normal_(generator=generator)
        factor: Tensor = self._running["factor"]
        spread = noise * factor if self.covariance == "diagonal" else noise @ factor.T
        return as_features(self._running["mean"] + spread, step)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the running statistics."""
        return dict(self._running)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from saved statistics."""
        self._running = dict(state)

    @torch.no_grad()
    def _follow(self, rows: Tensor, kept: Tensor) -> None:
        running = {
            key: value.to(rows) if isinstance(value, Tensor) else value
            for key, value in self._running.items()
        }
        weight = kept.to(rows.dtype).unsqueeze(-1)
        count = weight.sum().clamp(min=1)
        mean = rows.sum(0) / count
        centred = (rows - mean) * weight
        spread = (
            centred.square().sum(0) if self.covariance == "diagonal" else centred.T @ centred
        ) / count
        age = running["age"]
        # A batch without kept examples adds nothing.
        pull = kept.any() * (self.momentum if age else 1.0)
        for name, new in (("mean", mean), ("spread", spread)):
            running[name] = torch.lerp(running.get(name, new), new, pull.to(new.dtype))
        if self.covariance == "diagonal":
            running["factor"] = running["spread"].sqrt()
        elif age % self.refresh == 0:
            running["factor"] = _cholesky(running["spread"])
        self._running = {**running, "age": age + 1}


def _cholesky(spread: Tensor) -> Tensor:
    """Factor a covariance that may be singular: fewer examples than dimensions."""
    ridge = 1e-4 * spread.diagonal().mean() + torch.finfo(spread.dtype).tiny ** 0.5
    eye = torch.eye(len(spread), dtype=spread.dtype, device=spread.device)
    factor: Tensor = torch.linalg.cholesky_ex(spread + ridge * eye, check_errors=False).L
    return factor
