"""One temperature per group of examples, pulled towards the common one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.calibrators.moments import Moments, Sweep
from calibrant.calibrators.newton import best_inverse_temperature, solve

__all__ = ["group_temperatures"]


class _PulledSweep(Sweep):
    """The moments of n examples plus (1 / 2nσ²) (β/β₀ − 1)²: still convex in β."""

    def __init__(
        self, logits: np.ndarray, labels: np.ndarray, common: float, spread: float
    ) -> None:
        super().__init__(logits, labels)
        self.common = common
        self.strength = 1 / (len(labels) * spread**2)

    def __call__(self, beta: float) -> Moments:
        """Return the moments at ``beta``, by one more pass."""
        here, away = super().__call__(beta), beta / self.common - 1
        return replace(
            here,
            nll=here.nll + self.strength * away**2 / 2,
            first=here.first + self.strength * away / self.common,
            second=here.second + self.strength / self.common**2,
            wrong=1,  # The pull gives every group an optimum, even if all its examples are right.
        )


def group_temperatures(
    logits: np.ndarray,
    labels: np.ndarray,
    group: np.ndarray,
    groups: int,
    *,
    spread: float,
    fewest: int,
) -> tuple[float, np.ndarray]:
    """Return the common temperature, and one for each of ``groups`` groups.

    Group g minimises n_g f_g(β) + ½ ((β/β₀ − 1) / spread)², f_g its mean NLL and β₀ the common
    inverse temperature: a Gaussian prior of relative width ``spread``, which few examples barely
    move and many overrule. Groups of fewer than ``fewest`` examples take the common one. The
    NLL of each group is at most that of the common temperature.
    """
    best = best_inverse_temperature(logits, labels)
    common = 1.0 if best.at.spread == 0 else best.beta
    betas = np.full(groups, common)
    for g in range(groups):
        rows = np.flatnonzero(group == g)
        if len(rows) >= max(1, fewest):
            sweep = _PulledSweep(logits[rows], labels[rows], common, spread)
            betas[g] = solve(sweep, common).beta
    return 1 / common, 1 / betas
