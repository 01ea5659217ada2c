"""The pairs of SECE, under the Gaussian kernel."""

import triton
import triton.language as tl

from calibrant.losses.triton.shared import along_columns, along_rows, leave, load, over_parts

__all__ = ["gap_averages", "gap_pulls", "gap_slopes"]

FAR = tl.constexpr(1.0e4)
"""The place of uncounted examples: no Gaussian reaches from there into [0, 1]."""


@triton.jit
def _nearness(c, other, SCALE: tl.constexpr):
    """Return exp(−(c_i − c_j)² / 2h²) and c_i − c_j; SCALE is √(log₂e / 2) / h."""
    difference = c - other[:, None]
    scaled = difference * SCALE
    return tl.exp2(-scaled * scaled), difference


@triton.jit(do_not_specialize=["n", "chunk"])
def gap_averages(
    confidence,
    correct,
    counted,
    sums,
    n,
    chunk,
    MASKED: tl.constexpr,
    SCALE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute Σ_j k_ij and Σ_j k_ij a_j: tiles in the type of c, their sums in float64."""
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = load(confidence, counted, row, n, 0.0, MASKED)
    mass = tl.zeros([1, ROWS], tl.float64)
    hits = tl.zeros([1, ROWS], tl.float64)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other = load(confidence, counted, column, n, FAR, MASKED)
        a = load(correct, counted, column, n, 0.0, MASKED).to(c.dtype)
        kernel, _ = _nearness(c, other, SCALE)
        mass += along_columns(kernel)
        hits += along_columns(kernel * a[:, None])
    place = part * n + row
    tl.store(sums + place, mass, mask=row < n)
    tl.store(sums + tl.num_programs(1) * n + place, hits, mask=row < n)


@triton.jit(do_not_specialize=["n", "parts"])
def gap_pulls(
    confidence,
    counted,
    sums,
    pulls,
    totals,
    n,
    parts,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Compute sign(s_i − c_i) / Σ_j k_ij and s_i per example; Σ|s_i − c_i| and the count."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    here = row < n
    if MASKED:
        here = here & (tl.load(counted + row, mask=here, other=0) != 0)
    c = tl.load(confidence + row, mask=here, other=0.0).to(tl.float64)
    mass = over_parts(sums, row, n, parts, ROWS, PARTS)
    hits = over_parts(sums + parts * n, row, n, parts, ROWS, PARTS)
    mass = tl.where(here, mass, 1.0)
    smoothed = hits / mass
    gap = tl.where(here, smoothed - c, 0.0)
    # 0 · gap is 0, or NaN if the gap is.
    sign = tl.where(gap > 0, 1.0, tl.where(gap < 0, -1.0, 0.0 * gap))
    tl.store(pulls + row, sign / mass, mask=row < n)
    tl.store(pulls + n + row, smoothed, mask=row < n)
    leave(totals, along_rows(tl.abs(gap)), along_rows(here.to(tl.float64)))


@triton.jit(do_not_specialize=["n", "chunk"])
def gap_slopes(
    confidence,
    correct,
    counted,
    pulls,
    slopes,
    n,
    chunk,
    MASKED: tl.constexpr,
    SCALE: tl.constexpr,
    RATE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute the gradient of Σ_i |s_i − c_i|.

    −sign_i − Σ_j k_ij (c_i − c_j) / h² · (q_i (a_j − s_i) + q_j (a_i − s_j)) with q = sign / Σ k:
    c_i changes its own average and those of the others.
    """
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = load(confidence, counted, row, n, 0.0, MASKED)
    a = load(correct, counted, row, n, 0.0, MASKED).to(c.dtype)
    pull = load(pulls, counted, row, n, 0.0, MASKED)
    smoothed = load(pulls + n, counted, row, n, 0.0, MASKED)
    slope = tl.zeros([1, ROWS], tl.float64)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other = load(confidence, counted, column, n, FAR, MASKED)
        other_a = load(correct, counted, column, n, 0.0, MASKED).to(c.dtype)
        other_pull = load(pulls, counted, column, n, 0.0, MASKED)
        other_smoothed = load(pulls + n, counted, column, n, 0.0, MASKED)
        kernel, difference = _nearness(c, other, SCALE)
        own = pull * (other_a[:, None] - smoothed)
        others = other_pull[:, None] * (a - other_smoothed[:, None])
        slope += along_columns(kernel * difference * (own + others))
    sign = tl.where(pull > 0, 1.0, tl.where(pull < 0, -1.0, 0.0 * pull)).to(tl.float64)
    slope = -slope * RATE * RATE - tl.where(part == 0, sign, 0.0)
    if MASKED:
        here = tl.load(counted + row, mask=row < n, other=0) != 0
        slope = tl.where(here, slope, 0.0)
    tl.store(slopes + part * n + row, slope, mask=row < n)
