"""The pairs of MMCE, under the Laplacian kernel."""

import triton
import triton.language as tl

from calibrant.losses.triton.shared import along_columns, along_rows, leave

__all__ = ["kernel_residuals", "kernel_slopes"]


@triton.jit(do_not_specialize=["n"])
def kernel_residuals(
    confidence, correct, share, columns, n, RATE: tl.constexpr, ROWS: tl.constexpr
):
    """Compute from c: r = s (a − c), r exp(x), r exp(−x), exp(x), exp(−x), with x = (c − ½) / h."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    inside = row < n
    c = tl.load(confidence + row, mask=inside, other=0.5).to(tl.float64)
    a = tl.load(correct + row, mask=inside, other=0.0).to(tl.float64)
    s = tl.load(share + row, mask=inside, other=0.0).to(tl.float64)
    r = s * (a - c)
    up, down = tl.exp((c - 0.5) * RATE), tl.exp((0.5 - c) * RATE)
    tl.store(columns + row, r, mask=inside)
    tl.store(columns + n + row, r * up, mask=inside)
    tl.store(columns + 2 * n + row, r * down, mask=inside)
    tl.store(columns + 3 * n + row, up, mask=inside)
    tl.store(columns + 4 * n + row, down, mask=inside)


@triton.jit(do_not_specialize=["n", "chunk"])
def kernel_slopes(
    confidence,
    share,
    columns,
    slopes,
    totals,
    n,
    chunk,
    RATE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute the gradient of Σ_ij r_i r_j exp(−|c_i − c_j| / h), that sum, and Σ|r|.

    exp(−|c_i − c_j| / h) is a product of a factor of i and one of j on each side of c_i, so a pair
    costs two comparisons and three additions.
    """
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    inside = row < n
    c = tl.load(confidence + row, mask=inside, other=0.0)
    below = tl.zeros([1, ROWS], tl.float64)
    above = tl.zeros([1, ROWS], tl.float64)
    tied = tl.zeros([1, ROWS], tl.float64)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        there = column < n
        other = tl.load(confidence + column, mask=there, other=0.0)
        r = tl.load(columns + column, mask=there, other=0.0)
        r_up = tl.load(columns + n + column, mask=there, other=0.0)
        r_down = tl.load(columns + 2 * n + column, mask=there, other=0.0)
        less = other[:, None] < c
        more = other[:, None] > c
        below += along_columns(tl.where(less, r_up[:, None], 0.0))
        above += along_columns(tl.where(more, r_down[:, None], 0.0))
        tied += along_columns(tl.where(less | more, 0.0, r[:, None]))
    s = tl.load(share + row, mask=inside, other=0.0).to(tl.float64)
    r = tl.load(columns + row, mask=inside, other=0.0)
    below *= tl.load(columns + 4 * n + row, mask=inside, other=0.0)
    above *= tl.load(columns + 3 * n + row, mask=inside, other=0.0)
    smoothed = below + above + tied
    slope = -2 * (s * smoothed + r * (below - above) * RATE)
    tl.store(slopes + part * n + row, slope, mask=inside)
    size = tl.where(part == 0, along_rows(tl.abs(r)), 0.0)
    leave(totals, along_rows(r * smoothed), size)
