"""Sums over the data at one inverse temperature: all that a Newton step needs, in one sweep.

With z = l − max l and β = 1/T, the mean NLL of softmax(β z) is

    f(β)   = mean_i [log Σ_k exp(β z_ik) − β z_iy]
    f'(β)  = mean_i [E_i z − z_iy]          f''(β) = mean_i Var_i z        f'''(β) = mean_i κ₃,i z

where E_i is the expectation under row i's probabilities. Each sweep works on chunks, so memory
does not grow with n; numba (extra ``fast``) sweeps large arrays on all cores, NumPy otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import numpy as np

__all__ = ["Moments", "Sweep"]

_CHUNK = 1 << 15  # Scores per NumPy chunk: 256 kB in float64.
_LARGE = 1 << 20  # Scores from which on compiling or loading the numba kernel pays.


@dataclass(frozen=True)
class Moments:
    """f and its derivatives at one β, and f(1).

    ``spread`` is the largest |z|, ``wrong`` the number of rows whose label has z_y < 0.
    """

    nll: float
    first: float
    second: float
    third: float
    spread: float
    wrong: int
    nll_at_one: float


class Sweep:
    """Counts its passes over logits (n, K) and labels (n,).

    >>> at_one = Sweep(np.array([[1.0, 0.0]]), np.array([0]))(1.0)
    >>> round(at_one.nll, 6), round(at_one.first, 6), round(at_one.second, 6)
    (0.313262, -0.268941, 0.196612)
    """

    def __init__(self, logits: np.ndarray, labels: np.ndarray) -> None:
        self.logits, self.labels, self.passes = logits, labels, 0

    def __call__(self, beta: float) -> Moments:
        """The moments at ``beta``, by one more pass."""
        self.passes += 1
        return self._kernel(self.logits, self.labels, beta)

    @cached_property
    def _kernel(self) -> Callable[[np.ndarray, np.ndarray, float], Moments]:
        if self.logits.size >= _LARGE and find_spec("numba") is not None:
            from calibrant.calibrators import moments_numba

            return moments_numba.moments
        return moments_numpy


def moments_numpy(logits: np.ndarray, labels: np.ndarray, beta: float) -> Moments:
    """The sweep in plain NumPy."""
    n, classes = logits.shape
    size = max(1, _CHUNK // classes)
    sums, spread, wrong = np.zeros(5), 0.0, 0
    for start in range(0, n, size):
        part = slice(start, start + size)
        chunk, lowest, misses = _chunk(logits[part], labels[part], beta)
        sums += chunk
        spread, wrong = max(spread, -lowest), wrong + misses
    nll, first, second, third, at_one = (float(s) for s in sums / n)
    return Moments(nll, first, second, third, spread, wrong, at_one)


def _chunk(logits: np.ndarray, labels: np.ndarray, beta: float) -> tuple[np.ndarray, float, int]:
    """The five sums, the lowest z and the number of z_y < 0 of one chunk."""
    z = np.array(logits.T, dtype=np.float64, order="C")  # Classes first: sums run over long rows.
    z -= z.max(axis=0)
    lowest, z_label = float(z.min()), z[labels, np.arange(len(labels))]
    at_one = np.log(np.exp(z).sum(axis=0)) - z_label
    weights = np.exp(beta * z)
    total = weights.sum(axis=0)
    weights /= total
    mean = np.einsum("kn,kn->n", weights, z)
    z -= mean
    weights *= z
    variance = np.einsum("kn,kn->n", weights, z)
    weights *= z
    skew = np.einsum("kn,kn->n", weights, z)
    sums = [np.log(total) - beta * z_label, mean - z_label, variance, skew, at_one]
    return np.array([s.sum() for s in sums]), lowest, int((z_label < 0).sum())
