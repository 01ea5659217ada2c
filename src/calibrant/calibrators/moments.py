"""Sums over the data at one inverse temperature: all inputs of a Newton step, in one sweep.

With z = l − max l and β = 1/T, the mean NLL of softmax(β z) is

    f(β)   = mean_i [log Σ_k exp(β z_ik) − β z_iy]
    f'(β)  = mean_i [E_i z − z_iy]          f''(β) = mean_i Var_i z        f'''(β) = mean_i κ₃,i z

where E_i is the expectation under row i's probabilities. Chunks of rows are summed on all cores,
so memory does not grow with n; their bounds depend on the size alone, so the result does not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.passes import compiled, in_order

__all__ = ["Moments", "Sweep", "sums_in_numpy"]

Sums = Callable[[np.ndarray, np.ndarray, float, bool], np.ndarray]

_CHUNK = 1 << 15  # Scores per NumPy chunk: 256 kB in float64.
_COMPILED_CHUNK = 1 << 18


@dataclass(frozen=True)
class Moments:
    """f and its derivatives at one β.

    ``spread`` is the largest |z|, ``wrong`` the number of rows whose label has z_y < 0.
    """

    nll: float
    first: float
    second: float
    third: float
    spread: float
    wrong: int


class Sweep:
    """Counts its passes over logits (n, K) and labels (n,); the first also finds f(1).

    >>> sweep = Sweep(np.array([[1.0, 0.0]]), np.array([0]))
    >>> at_one = sweep(1.0)
    >>> round(at_one.nll, 6), round(at_one.first, 6), round(at_one.second, 6)
    (0.313262, -0.268941, 0.196612)
    >>> at_one.nll == sweep.nll_at_one
    True
    """

    nll_at_one: float

    def __init__(
        self, logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        self.logits, self.labels, self.weights, self.passes = logits, labels, weights, 0
        self.size = len(labels) if weights is None else float(weights.sum())

    def __call__(self, beta: float) -> Moments:
        """Return the moments at ``beta``, by one more pass."""
        table = self.table(beta, also_at_one=self.passes == 0)
        nll, first, second, third, at_one = (float(s) for s in table[:, :5].sum(axis=0) / self.size)
        if self.passes == 0:
            self.nll_at_one = at_one
        self.passes += 1
        spread, wrong = float(-table[:, 5].min()), int(table[:, 6].sum())
        return Moments(nll, first, second, third, spread, wrong)

    def table(self, beta: float, also_at_one: bool) -> np.ndarray:
        """Return one row of sums per chunk of the data."""
        # The compiled sums know no weights.
        sums, chunk = _sums(self.logits.size) if self.weights is None else (None, _CHUNK)
        rows = max(1, chunk // self.logits.shape[1])
        chunks = [slice(start, start + rows) for start in range(0, len(self.labels), rows)]

        def part(here: slice) -> np.ndarray:
            rows = (self.logits[here], self.labels[here], beta, also_at_one)
            if sums is not None:
                return sums(*rows)
            return sums_in_numpy(*rows, None if self.weights is None else self.weights[here])

        return np.array(list(in_order(part, chunks, self.logits.size)))


def _sums(scores: int) -> tuple[Sums, int]:
    """Return the function that sums a chunk, and the number of scores per chunk."""
    module = compiled("moments_compiled", scores)
    if module is None:
        return sums_in_numpy, _CHUNK
    return module.sums_compiled, _COMPILED_CHUNK


def sums_in_numpy(
    logits: np.ndarray,
    labels: np.ndarray,
    beta: float,
    also_at_one: bool,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return sums over rows of f, f', f'', f''' and f(1); the lowest z; the count of z_y < 0."""
    z = np.array(logits.T, dtype=np.float64, order="C")  # Classes first: sums run over long rows.
    z -= z.max(axis=0)
    lowest, z_label = float(z.min()), z[labels, np.arange(len(labels))]
    at_one = np.log(np.exp(z).sum(axis=0)) - z_label if also_at_one else np.zeros(1)
    p = np.exp(beta * z)
    total = p.sum(axis=0)
    p /= total
    mean = np.einsum("kn,kn->n", p, z)
    z -= mean
    p *= z
    variance = np.einsum("kn,kn->n", p, z)
    p *= z
    skew = np.einsum("kn,kn->n", p, z)
    sums = [np.log(total) - beta * z_label, mean - z_label, variance, skew, at_one]
    sums = sums if weights is None else [s * weights for s in sums]
    return np.array([*(s.sum() for s in sums), lowest, (z_label < 0).sum()])
