"""Pairs ordered in two ways at once: sums over the j below i in error and in confidence.

Sorted by confidence, the examples are split by the top bit of their rank in error: left half smaller
errors, right half larger. Every pair (larger error in the right, smaller confidence in the left) is
counted by prefix sums along the row. Then each half is a row of its own, still sorted by confidence,
and the next bit splits it: log₂ n levels of O(n) work (a wavelet tree, without the tree).

Ties are exact. Equal errors are ranked by falling confidence, so that no pair of them is ever counted;
pairs of equal confidence contribute 0 anyway.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["violation"]

MATRIX_BELOW = {"cpu": 512, "cuda": 2048}
"""Up to this n the n × n matrix is faster, as measured by benchmarks/pairwise.py."""

Sums = tuple[Float[Tensor, ""], Float[Tensor, " n"], Float[Tensor, ""]]


def violation(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Sums:
    """Σ_ij max(0, c_i − c_j)² 1[e_i > e_j] over counted pairs, its gradient in c, the number of pairs."""
    if confidence.numel() <= MATRIX_BELOW.get(confidence.device.type, 512):
        return by_matrix(confidence, error, counted)
    return by_levels(confidence, error, counted)


def by_matrix(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Sums:
    """The formula as it stands, n × n."""
    worse = error.unsqueeze(1) > error
    worse &= counted & counted.unsqueeze(1)
    excess = torch.where(worse, (confidence.unsqueeze(1) - confidence).relu(), 0.0)
    gradient = 2 * (excess.sum(1) - excess.sum(0))
    return excess.square().sum(), gradient, worse.sum().to(confidence.dtype)


def by_levels(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Sums:
    """The same in O(n log n)."""
    order = torch.where(counted, confidence, torch.inf).argsort(stable=True)
    rank, pairs = _error_rank(error[order], counted[order])
    shifted = confidence[order]
    # Only differences matter: measured from the top, they keep their digits near confidence 1.
    shifted = torch.where(counted[order], shifted - shifted.amax(), 0.0)
    half_gradient = _sweep(shifted, rank).index_select(0, rank)
    half_gradient = torch.where(counted[order], half_gradient, 0.0)
    # The sum is homogeneous of degree 2 in c, so Euler gives it from its gradient.
    total = (shifted * half_gradient).sum().clamp(min=0)
    return total, torch.empty_like(confidence).scatter_(0, order, 2 * half_gradient), pairs


def _error_rank(
    error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], Float[Tensor, ""]]:
    """The rank in error of examples sorted by confidence, ignored ones first; the number of pairs.

    Ignored examples come last in confidence and first in rank, where no pair of ours reaches them.
    """
    n = error.numel()
    ordered, positions = torch.where(counted, error, torch.inf).flip(0).sort(stable=True)
    positions = n - 1 - positions
    here = counted[positions]
    place = torch.arange(n, device=error.device)
    changes = torch.cat([here.new_zeros(1), ordered[1:] != ordered[:-1]])
    smaller = torch.where(changes, place, 0).cummax(0).values
    pairs = torch.where(here, smaller, 0).sum().double()
    ignored = (~here).cumsum(0)
    rank = torch.where(here, ignored[-1] + place - ignored, ignored - 1)
    return torch.empty_like(rank).scatter_(0, positions, rank), pairs


def _sweep(value: Float[Tensor, " n"], rank: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """By rank, for each i: Σ_j (v_i − v_j) over all j with v_j < v_i and smaller rank, or both larger.

    ``value`` is sorted and at most 0. Padding to a power of two comes last in value and first in
    rank, as ignored examples do: no pair reaches it.
    """
    padding = (1 << (value.numel() - 1).bit_length()) - value.numel()
    value = torch.cat([value, value.new_zeros(padding)])
    rank = torch.cat([rank + padding, torch.arange(padding, device=rank.device)])
    gradient = torch.zeros_like(value)
    half = value.numel() // 2
    while half:
        value, rank, gradient = _level(value, rank, gradient, half)
        half //= 2
    return gradient[padding:]


def _level(
    value: Float[Tensor, " n"], rank: Int[Tensor, " n"], gradient: Float[Tensor, " n"], half: int
) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Count the pairs that this bit of the rank separates, then split each row by it."""
    rows = value.view(-1, 2 * half)
    right = (rank & half).view_as(rows).bool()
    rights = right.cumsum(1)
    place = torch.arange(2 * half, device=value.device)
    # A right one looks at the lefts before it, a left one at the rights behind it.
    count = torch.where(right, place + 1, half) - rights
    sum_left = torch.where(right, 0.0, rows).cumsum(1)
    sum_right = rows.cumsum(1) - sum_left
    seen = torch.where(right, sum_left, sum_right[:, -1:] - sum_right)
    gradient = gradient + (count * rows - seen).view(-1)
    start = torch.arange(0, value.numel(), 2 * half, device=value.device).unsqueeze(1)
    target = (torch.where(right, rights + (half - 1), place - rights) + start).view(-1)
    return (
        torch.empty_like(value).scatter_(0, target, value),
        torch.empty_like(rank).scatter_(0, target, rank),
        torch.empty_like(gradient).scatter_(0, target, gradient),
    )
