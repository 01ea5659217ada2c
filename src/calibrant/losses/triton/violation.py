"""The pairs of the error regularisation."""

import triton
import triton.language as tl

from calibrant.losses.triton.shared import along_columns, along_rows, leave, load

__all__ = ["violation_slopes"]


@triton.jit(do_not_specialize=["n", "chunk"])
def violation_slopes(
    confidence,
    error,
    counted,
    slopes,
    totals,
    n,
    chunk,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sum c_i − c_j over the j that i is above in c and e, or below in both; Σ of squares, pairs.

    Uncounted examples have error NaN, so they are neither above nor below any other.
    """
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = load(confidence, counted, row, n, 0.0, MASKED)
    e = load(error, counted, row, n, float("nan"), MASKED)
    slope = tl.zeros([1, ROWS], tl.float64)
    total = (c - c).to(tl.float64)  # NaN if c is: no comparison below is true for it.
    pairs = tl.zeros([1, ROWS], tl.int32)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other_c = load(confidence, counted, column, n, 0.0, MASKED)[:, None]
        other_e = load(error, counted, column, n, float("nan"), MASKED)[:, None]
        difference, worse = c - other_c, e > other_e
        lower = tl.where(e < other_e, tl.minimum(difference, 0.0), 0.0)
        excess = tl.where(worse, tl.maximum(difference, 0.0), lower)
        slope += along_columns(excess)
        total += along_columns(excess * excess)
        pairs += tl.sum(worse.to(tl.int32), 0, keep_dims=True)
    tl.store(slopes + part * n + row, 2 * slope, mask=row < n)
    # Every pair was counted from both of its ends.
    leave(totals, along_rows(total) * 0.5, along_rows(pairs).to(tl.float64))
