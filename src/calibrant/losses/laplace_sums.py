"""Sums over all pairs under the Laplacian kernel exp(−|c_i − c_j| / h), in one dimension.

Sorted by c, the sum over everything at or before i decays by exp(−(c_i − c_{i−1}) / h) from one
example to the next: two scans, forward and backward, give every kernel sum in O(n log n).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from calibrant.errors import InputError

__all__ = ["quadratic_form"]

MATRIX_BELOW = {"cpu": 160, "cuda": 4096}
"""Up to this n the n × n matrix is faster, as measured by benchmarks/pairwise.py on a CPU; on an
H200 the scans take 2.1 ms at any n, the naive matrix 0.95 ms at 4096 and 3.2 ms at 8192."""

Form = tuple[Float[Tensor, ""], Float[Tensor, " n"], Float[Tensor, ""]]


def quadratic_form(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    share: Float[Tensor, " n"],
    bandwidth: float,
) -> Form:
    """Return Σ_ij r_i r_j exp(−|c_i − c_j| / h) with r = s·(a − c), its gradient in c, Σ_i |r_i|.

    With k_i = Σ_j k_ij r_j and d_i = Σ_j sign(c_i − c_j) k_ij r_j the gradient is
    −2 s_i k_i − 2 r_i d_i / h: one part from the residual, one from the kernel.
    """
    if not bandwidth > 0:
        raise InputError(f"The bandwidth of the kernel is above 0; got {bandwidth}.")
    residual = share * (correct - confidence)
    matrix = confidence.numel() <= MATRIX_BELOW.get(confidence.device.type, 160)
    sums = sums_by_matrix if matrix else sums_by_scans
    smoothed, tilt = sums(confidence, residual, bandwidth)
    gradient = -2 * (share * smoothed + residual * tilt / bandwidth)
    return torch.dot(residual, smoothed), gradient, residual.abs().sum()


def sums_by_matrix(
    confidence: Float[Tensor, " n"], residual: Float[Tensor, " n"], bandwidth: float
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return Σ_j k_ij r_j and Σ_j sign(c_i − c_j) k_ij r_j directly, n × n."""
    distance = confidence.unsqueeze(1) - confidence
    kernel = distance.abs().mul_(-1 / bandwidth).exp_()
    return torch.mv(kernel, residual), torch.mv(distance.sign_().mul_(kernel), residual)


def sums_by_scans(
    confidence: Float[Tensor, " n"], residual: Float[Tensor, " n"], bandwidth: float
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Compute the same in O(n log n)."""
    ordered, order = confidence.sort(stable=True)
    sorted_residual = residual.index_select(0, order)
    before, strictly_before = _decayed(ordered, sorted_residual, bandwidth)
    after, strictly_after = _decayed(-ordered.flip(0), sorted_residual.flip(0), bandwidth)
    smoothed = before + after.flip(0) - sorted_residual
    tilt = strictly_before - strictly_after.flip(0)
    return (
        torch.empty_like(smoothed).scatter_(0, order, smoothed),
        torch.empty_like(tilt).scatter_(0, order, tilt),
    )


def _decayed(
    ordered: Float[Tensor, " n"], residual: Float[Tensor, " n"], bandwidth: float
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return Σ_{j ≤ i} exp((x_j − x_i) / h) r_j for sorted x, and the same over x_j < x_i only.

    Ties have sign 0, so the strict sum ends before the whole run of ties.
    """
    position = ordered / bandwidth
    narrow = 1 / bandwidth > (300 if position.dtype == torch.float64 else 40)
    inclusive = (_scan_by_doubling if narrow else _scan)(position, residual)
    place = torch.arange(position.numel(), device=position.device)
    changes = torch.cat([place.new_zeros(1).bool(), ordered[1:] != ordered[:-1]])
    run = torch.where(changes, place, 0).cummax(0).values
    last = (run - 1).clamp(min=0)
    decay = (position.index_select(0, last) - position).exp()
    return inclusive, torch.where(run > 0, inclusive.index_select(0, last) * decay, 0.0)


def _scan(position: Float[Tensor, " n"], residual: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return Σ_{j ≤ i} exp(x_j − x_i) r_j as one prefix sum.

    The terms before i are smaller by the factor that scales them up later, so no digit is lost; but
    exp(x) must not overflow, and x reaches 1/h.
    """
    return (position.exp() * residual).cumsum(0) * (-position).exp()


def _scan_by_doubling(
    position: Float[Tensor, " n"], residual: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Compute the same in log₂ n steps that each double the reach: no exponent is positive."""
    total, reach = residual, 1
    while reach < position.numel():
        decay = (position[:-reach] - position[reach:]).exp()
        total = torch.cat([total[:reach], total[reach:] + decay * total[:-reach]])
        reach *= 2
    return total
