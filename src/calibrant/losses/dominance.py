"""Pairs ordered in two ways at once: sums over the j below i in error and in confidence.

Sorted by confidence, the examples are split by the top bit of their rank in error: left half
smaller errors, right half larger. Every pair (larger error in the right, smaller confidence in the
left) is counted by prefix sums along the row. Then each half is a separate row, still sorted by
confidence, and the next bit splits it: log₂ n levels of O(n) work (a wavelet tree, without the
tree). The last levels have short rows and are computed at once: all pairs of each row.

Ties are exact. Equal errors are ranked by falling confidence, so that no pair of them is ever
counted; pairs of equal confidence contribute 0 anyway.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["violation"]

MATRIX_BELOW = {"cpu": 512, "cuda": 4096}
"""Up to this n the n × n matrix is faster, as measured by benchmarks/pairwise.py on a CPU; on an
H200 the naive matrix takes 0.75 ms at 4096 and 2.6 ms at 8192, one level about 0.25 ms."""

DENSE_ROW = {"cpu": 8, "cuda": 256}
"""Rows of this length are no longer split: on a GPU the twenty launches of a level cost more than
its arithmetic; on a CPU three levels less are up to a quarter faster."""

MOST_DENSE_PAIRS = 1 << 24
"""Pairs in such rows at a time: 128 MB. Beyond it the rows are shorter."""

Sums = tuple[Float[Tensor, ""], Float[Tensor, " n"], Int[Tensor, ""]]


def violation(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"] | None
) -> Sums:
    """Return Σ_ij max(0, c_i − c_j)² 1[e_i > e_j] over counted pairs, gradient, number of pairs."""
    if confidence.numel() <= MATRIX_BELOW.get(confidence.device.type, 512):
        return by_matrix(confidence, error, counted)
    if counted is None:
        counted = torch.ones_like(confidence, dtype=torch.bool)
    return by_levels(confidence, error, counted)


def by_matrix(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"] | None
) -> Sums:
    """Compute the formula directly, n × n."""
    if counted is not None:
        error = torch.where(counted, error, torch.nan)  # Neither above nor below any other.
        confidence = torch.where(counted, confidence, 0.0)
    worse = error.unsqueeze(1) > error
    excess = (confidence.unsqueeze(1) - confidence).relu_().mul_(worse)
    total = torch.dot(excess.view(-1), excess.view(-1))
    return total, 2 * (excess.sum(1) - excess.sum(0)), worse.sum()


def by_levels(
    confidence: Float[Tensor, " n"], error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Sums:
    """Compute the same in O(n log n)."""
    order = torch.where(counted, confidence, torch.inf).argsort(stable=True)
    here = counted.index_select(0, order)
    rank, pairs = _error_rank(error.index_select(0, order), here)
    # Only differences matter: relative to the top, they keep their digits near confidence 1.
    top = torch.where(counted, confidence, 0.0).amax()
    shifted = torch.where(counted, confidence - top, 0.0).index_select(0, order)
    half_gradient = _sweep(shifted, rank).index_select(0, rank)
    half_gradient = torch.where(here, half_gradient, 0.0)
    # The sum is homogeneous of degree 2 in c, so Euler gives it from its gradient.
    total = (shifted * half_gradient).sum().clamp(min=0)
    gradient = torch.empty_like(confidence).scatter_(0, order, 2 * half_gradient)
    return total, gradient, pairs


def _error_rank(
    error: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], Int[Tensor, ""]]:
    """Return the error rank of examples sorted by confidence, ignored first; the number of pairs.

    Ignored examples come last in confidence and first in rank, where no counted pair reaches them.
    """
    n = error.numel()
    ordered, positions = torch.where(counted, error, torch.inf).flip(0).sort(stable=True)
    positions = n - 1 - positions
    here = counted.index_select(0, positions)
    place = torch.arange(n, device=error.device)
    changes = torch.cat([here.new_zeros(1), ordered[1:] != ordered[:-1]])
    smaller = torch.where(changes, place, 0).cummax(0).values
    pairs = torch.where(here, smaller, 0).sum()
    ignored = (~here).cumsum(0)
    rank = torch.where(here, ignored[-1] + place - ignored, ignored - 1)
    return torch.empty_like(rank).scatter_(0, positions, rank), pairs


def _sweep(value: Float[Tensor, " n"], rank: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return by rank Σ_j (v_i − v_j) over the j smaller in value and rank, or larger in both.

    ``value`` is sorted. Padding to a power of two comes last in value and first in
    rank, as ignored examples do: no pair reaches it.
    """
    padding = (1 << (value.numel() - 1).bit_length()) - value.numel()
    value = torch.cat([value, value.new_zeros(padding)])
    rank = torch.cat([rank + padding, torch.arange(padding, device=rank.device)])
    gradient = torch.zeros_like(value)
    dense = _dense_levels(value)
    for level in reversed(range(dense, value.numel().bit_length() - 1)):
        value, rank, gradient = _level(value, rank, gradient, level)
    if dense:
        gradient = gradient + _within_rows(value.view(-1, 1 << dense), rank.view(-1, 1 << dense))
        gradient = torch.empty_like(gradient).scatter_(0, rank, gradient)
    return gradient[padding:]


def _dense_levels(value: Float[Tensor, " n"]) -> int:
    """Return how many of the last levels to compute at once."""
    most = max(1, min(DENSE_ROW.get(value.device.type, 1), MOST_DENSE_PAIRS // value.numel()))
    return min(most.bit_length(), value.numel().bit_length()) - 1


def _within_rows(
    value: Float[Tensor, "rows m"], rank: Int[Tensor, "rows m"]
) -> Float[Tensor, " n"]:
    """Return the gradient from the pairs inside each row."""
    excess = (value.unsqueeze(2) - value.unsqueeze(1)).relu_()
    excess *= rank.unsqueeze(2) > rank.unsqueeze(1)
    return (excess.sum(2) - excess.sum(1)).view(-1)


def _level(
    value: Float[Tensor, " n"], rank: Int[Tensor, " n"], gradient: Float[Tensor, " n"], level: int
) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Count the pairs that this bit of the rank separates, then split each row by it."""
    half = 1 << level
    rows = value.view(-1, 2 * half)
    right = (rank.view_as(rows) >> level) & 1
    rights = right.cumsum(1)
    place = torch.arange(2 * half, device=value.device)
    # A left one compares with the rights behind it, a right one with the lefts before it. Both are
    # products with the bit: torch.where is several times slower on a CPU.
    bit = right.to(value.dtype)
    sum_right = (bit * rows).cumsum(1)
    all_right = sum_right[:, -1:]
    behind = (half - rights) * rows - (all_right - sum_right)
    turn = (place + (1 - half)) * rows - (rows.cumsum(1) - all_right)
    gradient = gradient + torch.addcmul(behind, bit, turn).view(-1)
    start = torch.arange(0, value.numel(), 2 * half, device=value.device).unsqueeze(1)
    target = place - rights + start + right * (2 * rights + (half - 1) - place)
    target = target.view(-1)
    return (
        torch.empty_like(value).scatter_(0, target, value),
        torch.empty_like(rank).scatter_(0, target, rank),
        torch.empty_like(gradient).scatter_(0, target, gradient),
    )
