"""Parts that the kernels share: loading, summing, and the last kernel of each."""

import triton
import triton.language as tl

__all__ = ["along_columns", "along_rows", "finish", "leave", "load", "over_parts"]


@triton.jit
def load(pointer, counted, index, n, blank, MASKED: tl.constexpr):
    """Load entries of a vector, ``blank`` beyond its end and where not counted."""
    inside = index < n
    if MASKED:
        inside = inside & (tl.load(counted + index, mask=inside, other=0) != 0)
    return tl.load(pointer + index, mask=inside, other=blank)


@triton.jit
def along_columns(tile):
    """Sum each row: within the tile in its own type, across tiles in float64."""
    return tl.sum(tile, 0, keep_dims=True).to(tl.float64)


@triton.jit
def along_rows(vector):
    """Sum over all rows of the program."""
    return tl.sum(tl.sum(vector, 1), 0)


@triton.jit
def leave(totals, first, second):
    """Store the two numbers of this program."""
    program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(totals + program, first)
    tl.store(totals + tl.num_programs(0) * tl.num_programs(1) + program, second)


@triton.jit
def over_parts(partial, row, n, parts, ROWS: tl.constexpr, PARTS: tl.constexpr):
    """Sum a row over all parts of the columns."""
    total = tl.zeros([1, ROWS], tl.float64)
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)[:, None]
        inside = (part < parts) & (row < n)
        place = part * n + row
        total += along_columns(tl.load(partial + place, mask=inside, other=0.0))
    return total


@triton.jit(do_not_specialize=["n", "parts", "programs"])
def finish(
    slopes,
    totals,
    gradient,
    value,
    n,
    parts,
    programs,
    ROOT: tl.constexpr,
    DIVIDE: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Compute the value and its gradient from the results of the programs.

    ``DIVIDE`` divides the first number by the second; ``ROOT`` takes the root of the first.
    """
    first = tl.zeros([PROGRAMS], tl.float64)
    second = tl.zeros([PROGRAMS], tl.float64)
    for start in range(0, programs, PROGRAMS):
        program = start + tl.arange(0, PROGRAMS)
        there = program < programs
        first += tl.load(totals + program, mask=there, other=0.0)
        second += tl.load(totals + programs + program, mask=there, other=0.0)
    answer, size = tl.sum(first, 0), tl.sum(second, 0)
    factor = 1.0 + 0.0 * answer  # NaN in the value makes the whole gradient NaN.
    if DIVIDE:
        size = tl.maximum(size, 1.0)
        answer = answer / size
        factor = factor / size
    if ROOT:
        answer = tl.sqrt(tl.where(answer < 0, 0.0, answer))
        # As in kernel_calibration: a square below 1e-16 Σ|r|² is rounding.
        factor = factor / (2 * tl.maximum(tl.maximum(answer, 1e-8 * size), 1e-150))
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    slope = over_parts(slopes, row, n, parts, ROWS, PARTS)
    tl.store(gradient + row, slope * factor, mask=row < n)
    if tl.program_id(0) == 0:
        tl.store(value, answer)
