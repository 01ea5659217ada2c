"""Noise on a shell around all class clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.methods.noise import Noise, as_features, feature_rows

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["Shell"]


class Shell(Noise):
    """Points outside every class cluster, in a random direction from the mean of the features.

    With running class means m_k, root mean square radii r_k and the mean m of the m_k, the shell
    has the inner radius R = max_k (‖m_k − m‖ + ``clearance`` · r_k), so each of its points is at
    least ``clearance`` · r_k away from every m_k (triangle inequality); the radius is uniform in
    R … (1 + ``thickness``) · R. ``momentum`` is the weight of the newest batch in the running
    values of the classes that it holds. Beyond the paper; no reference.

    >>> from calibrant.training import Step
    >>> features = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> step = Step(torch.zeros(2, 2), torch.tensor([0, 1]), features=features)
    >>> bool((Shell(thickness=0.5).like(step, torch.Generator()).norm(dim=-1) >= 1).all())
    True
    """

    def __init__(
        self, clearance: float = 2.0, thickness: float = 0.5, momentum: float = 0.1
    ) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            raise InputError(f"Shell: momentum is above 0 and up to 1, got {momentum}.")
        self.clearance = clearance
        self.thickness = thickness
        self.momentum = momentum
        self._running: dict[str, Any] = {}

    def like(self, step: Step, generator: torch.Generator) -> Tensor:
        """Return m + ρ u with u uniform on the sphere."""
        rows, kept = feature_rows(step)
        self._follow(step, rows, kept)
        centre, radius = self._shell()
        noise = torch.empty_like(rows).normal_(generator=generator)
        noise = noise / noise.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        stretch = torch.rand(
            len(rows), 1, generator=generator, device=rows.device, dtype=rows.dtype
        )
        return as_features(centre + noise * radius * (1 + self.thickness * stretch), step)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the running means and radii."""
        return dict(self._running)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from saved means and radii."""
        self._running = dict(state)

    @torch.no_grad()
    def _follow(self, step: Step, rows: Tensor, kept: Tensor) -> None:
        repeats = len(rows) // max(step.labels.numel(), 1)
        labels = step.labels.reshape(-1).repeat_interleave(repeats)
        member = torch.nn.functional.one_hot(labels.where(kept, 0), step.classes).to(rows.dtype)
        member = member * kept.unsqueeze(-1)
        count = member.sum(0)
        mean = member.T @ rows / count.clamp(min=1).unsqueeze(-1)
        # Σ‖x − m‖² = Σ‖x‖² − n‖m‖² loses digits if the mean is large, so compute distances.
        distance = (rows - member @ mean).square().sum(-1)
        spread = member.T @ distance / count.clamp(min=1)
        old = {name: value.to(rows) for name, value in self._running.items()}
        seen = old.get("seen", torch.zeros_like(count)) > 0
        pull = (count > 0) * torch.where(seen, self.momentum, 1.0).to(rows.dtype)
        self._running = {
            "seen": seen | (count > 0),
            "mean": torch.lerp(old.get("mean", mean), mean, pull.unsqueeze(-1)),
            "spread": torch.lerp(old.get("spread", spread), spread, pull),
        }

    def _shell(self) -> tuple[Tensor, Tensor]:
        """Return centre and inner radius over the classes seen so far."""
        seen, mean, spread = (self._running[name] for name in ("seen", "mean", "spread"))
        weight = seen.to(mean.dtype).unsqueeze(-1)
        centre = (mean * weight).sum(0) / weight.sum().clamp(min=1)
        reach = (mean - centre).norm(dim=-1) + self.clearance * spread.sqrt()
        return centre, reach.where(seen, 0).amax()
