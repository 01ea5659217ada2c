"""Sums over all pairs under the Gaussian kernel in one dimension, in O(n): a fast Gauss transform.

Trained classifiers pile their confidences up near 1, so cutting the kernel off at its support still
leaves n² pairs. Instead [0, 1] is cut into cells of width h/2. The sources of a cell are summed
into moments about its centre, and the moments of all cells near enough become one Taylor series per
cell:

    f(x − y) = Σ_{k+l<p} f^(k+l)(X − Y) · t^k/k! · (−u)^l/l!

with f(z) = exp(−z²/2) in units of h, x = X + t in the cell with centre X, y = Y + u in that with Y.

Error bound. Cramér's inequality gives |f^(m)(z)| ≤ 1.09 √m! exp(−z²/4). As |t − u| ≤ 1/2, the terms
left out for one pair sum to at most Σ_{m≥p} 1.09 · 2^−m / √m! < 1e-18 at p = 24, and in the
derivative to Σ_{m≥p} 1.09 · m · 2^{1−m} / √m! < 1e-17. Cells further apart than 9 h are dropped:
each such pair is below exp(−9²/2) < 3e-18, in the derivative below 9 · 3e-18. So each kernel sum is
exact to 3e-17 · Σ|q_j|, less than the rounding of float64 (2^-53 = 1.1e-16) in adding up its terms.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calibrant.errors import InputError

__all__ = ["smooth_gap"]

MATRIX_BELOW = {"cpu": 512, "cuda": 4096}
"""Up to this n the n × n matrix is faster, as measured by benchmarks/pairwise.py on a CPU; on an
H200 the naive matrix takes 0.8 ms at 4096 and 2.5 ms at 8192."""

AT_ONCE = {"cpu": 0, "cuda": 1 << 18}
"""Up to this n (and this many Taylor coefficients) all powers are kept, p numbers per example: on a
GPU the loops over them are hundreds of launches, which dominate the time."""

DEGREE = 24
"""p: the number of Taylor coefficients of a cell."""
CELL = 0.5
"""Width of a cell, in bandwidths."""
REACH = math.ceil(9 / CELL) + 1
"""The number of cells added on each side; the next is more than 9 bandwidths away."""
NARROWEST = 1e-4
"""Smallest bandwidth; the work for the cells grows as 1/h."""


Gap = tuple[Float[Tensor, ""], Float[Tensor, " n"]]


def smooth_gap(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    counted: Bool[Tensor, " n"] | None,
    bandwidth: float,
) -> Gap:
    """Return mean_i |s_i − c_i| over counted i, s_i = Σ_j k_ij a_j / Σ_j k_ij, and its gradient."""
    if not bandwidth >= NARROWEST:
        raise InputError(f"The bandwidth of the kernel is at least {NARROWEST}; got {bandwidth}.")
    weight = None
    if counted is not None:
        weight = counted.to(confidence.dtype)
        confidence = torch.where(counted, confidence, 0.0)
        correct = torch.where(counted, correct, 0.0)
    # A narrower kernel has more cells, so they pay off later.
    matrix_below = MATRIX_BELOW.get(confidence.device.type, 512) * max(1.0, 0.01 / bandwidth) ** 0.5
    if confidence.numel() <= min(matrix_below, 4096):
        return by_matrix(confidence, correct, weight, bandwidth)
    weight = torch.ones_like(confidence) if weight is None else weight
    return by_cells(confidence, correct, weight, bandwidth)


def by_matrix(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    weight: Float[Tensor, " n"] | None,
    bandwidth: float,
) -> Gap:
    """Compute the formula directly, n × n."""
    distance = (confidence / bandwidth).unsqueeze(1) - confidence / bandwidth
    kernel = distance.square().mul_(-0.5).exp_()
    if weight is not None:
        kernel *= weight
    mass = kernel.sum(1).clamp(min=torch.finfo(kernel.dtype).tiny)
    smoothed = torch.mv(kernel, correct) / mass
    gap = smoothed - confidence
    count: Tensor | int = max(confidence.numel(), 1)
    if weight is not None:
        gap, count = gap * weight, weight.sum().clamp(min=1)
    sign = gap.sign() / count
    # How the distance of each pair moves the value, through the average of the first.
    pull = (correct - smoothed.unsqueeze(1)).mul_(distance.mul_(kernel))
    pull *= (sign / mass / bandwidth).unsqueeze(1)
    return gap.abs().sum() / count, pull.sum(0) - pull.sum(1) - sign


def by_cells(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    weight: Float[Tensor, " n"],
    bandwidth: float,
) -> Gap:
    """Compute the same in O(n).

    With σ_i = sign(s_i − c_i)/n, N and D the kernel sums of a and of 1, and primes for derivatives
    by position: ∂/∂c_m = −σ_m + σ_m (N'_m − s_m D'_m)/D_m + a_m Q'_m − R'_m, where Q and R are the
    kernel sums of σ/D and σs/D. c_m changes its own average and those of the others.
    """
    sums = CellSums(confidence / bandwidth, bandwidth)
    (mass, hits), (mass_slope, hits_slope) = sums(torch.stack([weight, correct]))
    mass = mass + (1 - weight)  # Not 0 where ignored, far from all others.
    smoothed = hits / mass
    gap, count = (smoothed - confidence) * weight, weight.sum().clamp(min=1)
    sign = gap.sign() / count
    pull = sign / mass
    _, (pull_slope, target_slope) = sums(torch.stack([pull, pull * smoothed]))
    own = pull * (hits_slope - smoothed * mass_slope)
    gradient = (own + correct * pull_slope - target_slope) / bandwidth - sign
    return gap.abs().sum() / count, gradient * weight


class CellSums:
    """Kernel sums Σ_j q_j f(x_i − x_j) and their derivatives by x_i, from Taylor series."""

    def __init__(self, position: Float[Tensor, " n"], bandwidth: float) -> None:
        self.cells = math.ceil(1 / (bandwidth * CELL)) + 1
        # Clamped, so that NaN stays in the sums and does not become an address.
        self.cell = (position / CELL).long().clamp(0, self.cells - 1)
        # Confidences crowd into few cells, where the atomic additions of a GPU would queue up:
        # neighbours add to copies of the cell.
        self.copies = 1 if position.device.type == "cpu" else 64
        copy = torch.arange(position.numel(), device=position.device) % self.copies
        self.slot = self.cell + self.cells * copy
        self.offset = position - (self.cell + 0.5) * CELL
        self.translation = _translation(position)
        at_once = AT_ONCE.get(position.device.type, 0)
        self.at_once = max(position.numel(), self.cells * DEGREE) <= at_once
        if self.at_once:
            self.order = torch.arange(DEGREE, device=position.device).unsqueeze(1)
            self.powers = self.offset**self.order

    def __call__(
        self, sources: Float[Tensor, "m n"]
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"]]:
        """Return sums and derivatives for each row of ``sources``."""
        if self.at_once:
            return self._evaluate_at_once(self._series_at_once(self._moments_at_once(sources)))
        series = self._series(torch.stack([self._moments(row) for row in sources]))
        pairs = [self._evaluate(one) for one in series]
        return torch.stack([pair[0] for pair in pairs]), torch.stack([pair[1] for pair in pairs])

    def _moments(self, source: Float[Tensor, " n"]) -> Float[Tensor, "degree cells"]:
        """Return Σ_j q_j u_j^l of each cell."""
        moments = source.new_zeros(DEGREE, self.copies * self.cells)
        term = source.clone()
        for moment in moments:
            moment.scatter_add_(0, self.slot, term)
            term *= self.offset
        return moments.view(DEGREE, self.copies, self.cells).sum(1)

    def _moments_at_once(self, sources: Float[Tensor, "m n"]) -> Float[Tensor, "m degree cells"]:
        terms = sources.unsqueeze(1) * self.powers
        moments = terms.new_zeros(*terms.shape[:2], self.copies * self.cells)
        moments.scatter_add_(2, self.slot.expand_as(terms), terms)
        return moments.view(*terms.shape[:2], self.copies, self.cells).sum(2)

    def _series(self, moments: Float[Tensor, "m degree cells"]) -> Float[Tensor, "m degree cells"]:
        """Return the Taylor coefficients of each cell, from the moments of all cells in reach."""
        padded = torch.nn.functional.pad(moments, (REACH, REACH))
        series = torch.zeros_like(moments)
        for start, step in enumerate(self.translation):
            window = padded[:, :, start : start + self.cells]
            series = torch.baddbmm(series, step.expand(moments.shape[0], -1, -1), window)
        return series

    def _series_at_once(
        self, moments: Float[Tensor, "m degree cells"]
    ) -> Float[Tensor, "m degree cells"]:
        padded = torch.nn.functional.pad(moments, (REACH, REACH))
        windows = padded.unfold(2, len(self.translation), 1)
        return torch.einsum("wkl,mlcw->mkc", self.translation, windows)

    def _evaluate(
        self, series: Float[Tensor, "degree cells"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Evaluate the series and its derivative at each example, by Horner's rule."""
        value = series[-1].index_select(0, self.cell)
        slope = torch.zeros_like(value)
        for coefficient in series.flip(0)[1:]:
            slope = torch.addcmul(value, slope, self.offset)
            value = torch.addcmul(coefficient.index_select(0, self.cell), value, self.offset)
        return value, slope

    def _evaluate_at_once(
        self, series: Float[Tensor, "m degree cells"]
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"]]:
        here = series.index_select(2, self.cell)
        slope = (self.order * here)[:, 1:] * self.powers[:-1]
        return (here * self.powers).sum(1), slope.sum(1)


def _translation(like: Tensor) -> Float[Tensor, "window degree degree"]:
    """Return f^(k+l)(X − Y) (−1)^l / l! k! for each Y from far left to far right of X, each k, l.

    0 for k + l ≥ p. As f^(m) = (−1)^m He_m f, the sign that is left is (−1)^k.
    """
    order = torch.arange(DEGREE, device=like.device)
    steps = torch.arange(REACH, -REACH - 1, -1, dtype=like.dtype, device=like.device) * CELL
    hermite = torch.special.hermite_polynomial_he(steps.unsqueeze(1), order)
    derivative = hermite * (steps.square() * -0.5).exp().unsqueeze(1)
    total = order.unsqueeze(1) + order
    inverse_factorial = (-(order + 1).to(like.dtype).lgamma()).exp()
    scale = inverse_factorial * (inverse_factorial * (1 - 2 * (order % 2))).unsqueeze(1)
    scale = scale * (total < DEGREE)
    table: Tensor = derivative[:, total.clamp(max=DEGREE - 1)] * scale
    return table
