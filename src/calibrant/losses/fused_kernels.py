"""The pair sums as Triton kernels; only :mod:`calibrant.losses.fused` imports this module.

A program owns ``ROWS`` examples i and a part of the columns j. It walks along that part in tiles of
``COLUMNS`` × ``ROWS`` pairs that live in registers, rows last: each thread then adds up its own
rows, and nothing is exchanged between threads. What it leaves is one number for each row (the
gradient of its part) and two for the whole program; :func:`finish` adds these up in a fixed order.
No atomic additions, so every run gives the same bits.

Numbers given at each launch are not specialised on, or every batch size would compile anew. The
bandwidth is a constant of the kernel, as Triton would otherwise round it to float32.
"""

import triton
import triton.language as tl

__all__ = [
    "finish",
    "gap_averages",
    "gap_pulls",
    "gap_slopes",
    "kernel_residuals",
    "kernel_slopes",
    "violation_slopes",
]


@triton.jit
def _load(pointer, counted, index, n, blank, MASKED: tl.constexpr):
    """Entries of a vector, ``blank`` beyond its end and where not counted."""
    inside = index < n
    if MASKED:
        inside = inside & (tl.load(counted + index, mask=inside, other=0) != 0)
    return tl.load(pointer + index, mask=inside, other=blank)


@triton.jit
def _along_columns(tile):
    """The sum of each row: within the tile in its own type, across tiles in float64."""
    return tl.sum(tile, 0, keep_dims=True).to(tl.float64)


@triton.jit
def _along_rows(vector):
    return tl.sum(tl.sum(vector, 1), 0)


@triton.jit
def _leave(totals, first, second):
    """The two numbers of this program."""
    program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(totals + program, first)
    tl.store(totals + tl.num_programs(0) * tl.num_programs(1) + program, second)


@triton.jit
def _over_parts(partial, row, n, parts, ROWS: tl.constexpr, PARTS: tl.constexpr):
    """The sum of a row over all parts of the columns."""
    total = tl.zeros([1, ROWS], tl.float64)
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)[:, None]
        inside = (part < parts) & (row < n)
        place = part * n + row
        total += _along_columns(tl.load(partial + place, mask=inside, other=0.0))
    return total


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
    """Σ_j (c_i − c_j) over the j that i is above in c and e, or below in both; Σ of squares, pairs.

    Not counted: error NaN, so neither above nor below anything.
    """
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = _load(confidence, counted, row, n, 0.0, MASKED)
    e = _load(error, counted, row, n, float("nan"), MASKED)
    slope = tl.zeros([1, ROWS], tl.float64)
    total = (c - c).to(tl.float64)  # NaN, if c is: no comparison below is true of it.
    pairs = tl.zeros([1, ROWS], tl.int32)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other_c = _load(confidence, counted, column, n, 0.0, MASKED)[:, None]
        other_e = _load(error, counted, column, n, float("nan"), MASKED)[:, None]
        difference, worse = c - other_c, e > other_e
        lower = tl.where(e < other_e, tl.minimum(difference, 0.0), 0.0)
        excess = tl.where(worse, tl.maximum(difference, 0.0), lower)
        slope += _along_columns(excess)
        total += _along_columns(excess * excess)
        pairs += tl.sum(worse.to(tl.int32), 0, keep_dims=True)
    tl.store(slopes + part * n + row, 2 * slope, mask=row < n)
    # Every pair was met from both of its ends.
    _leave(totals, _along_rows(total) * 0.5, _along_rows(pairs).to(tl.float64))


@triton.jit(do_not_specialize=["n"])
def kernel_residuals(
    confidence, correct, share, columns, n, RATE: tl.constexpr, ROWS: tl.constexpr
):
    """For c: r = s (a − c), r exp(x), r exp(−x), exp(x), exp(−x), with x = (c − ½) / h."""
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
    """The gradient of Σ_ij r_i r_j exp(−|c_i − c_j| / h), that sum, and Σ|r|.

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
        below += _along_columns(tl.where(less, r_up[:, None], 0.0))
        above += _along_columns(tl.where(more, r_down[:, None], 0.0))
        tied += _along_columns(tl.where(less | more, 0.0, r[:, None]))
    s = tl.load(share + row, mask=inside, other=0.0).to(tl.float64)
    r = tl.load(columns + row, mask=inside, other=0.0)
    below *= tl.load(columns + 4 * n + row, mask=inside, other=0.0)
    above *= tl.load(columns + 3 * n + row, mask=inside, other=0.0)
    smoothed = below + above + tied
    slope = -2 * (s * smoothed + r * (below - above) * RATE)
    tl.store(slopes + part * n + row, slope, mask=inside)
    size = tl.where(part == 0, _along_rows(tl.abs(r)), 0.0)
    _leave(totals, _along_rows(r * smoothed), size)


FAR = tl.constexpr(1.0e4)
"""Where examples that do not count are put: no Gaussian reaches from there into [0, 1]."""


@triton.jit
def _nearness(c, other, SCALE: tl.constexpr):
    """exp(−(c_i − c_j)² / 2h²) and c_i − c_j; SCALE is √(log₂e / 2) / h."""
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
    """Σ_j k_ij and Σ_j k_ij a_j: tiles in the type of c, their sums in float64."""
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = _load(confidence, counted, row, n, 0.0, MASKED)
    mass = tl.zeros([1, ROWS], tl.float64)
    hits = tl.zeros([1, ROWS], tl.float64)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other = _load(confidence, counted, column, n, FAR, MASKED)
        a = _load(correct, counted, column, n, 0.0, MASKED).to(c.dtype)
        kernel, _ = _nearness(c, other, SCALE)
        mass += _along_columns(kernel)
        hits += _along_columns(kernel * a[:, None])
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
    """For each example sign(s_i − c_i) / Σ_j k_ij and s_i; Σ|s_i − c_i| and how many count."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    here = row < n
    if MASKED:
        here = here & (tl.load(counted + row, mask=here, other=0) != 0)
    c = tl.load(confidence + row, mask=here, other=0.0).to(tl.float64)
    mass = _over_parts(sums, row, n, parts, ROWS, PARTS)
    hits = _over_parts(sums + parts * n, row, n, parts, ROWS, PARTS)
    mass = tl.where(here, mass, 1.0)
    smoothed = hits / mass
    gap = tl.where(here, smoothed - c, 0.0)
    # 0 · gap is 0, or NaN if the gap is.
    sign = tl.where(gap > 0, 1.0, tl.where(gap < 0, -1.0, 0.0 * gap))
    tl.store(pulls + row, sign / mass, mask=row < n)
    tl.store(pulls + n + row, smoothed, mask=row < n)
    _leave(totals, _along_rows(tl.abs(gap)), _along_rows(here.to(tl.float64)))


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
    """The gradient of Σ_i |s_i − c_i|.

    −sign_i − Σ_j k_ij (c_i − c_j) / h² · (q_i (a_j − s_i) + q_j (a_i − s_j)) with q = sign / Σ k:
    c_i moves its own average, and it moves in those of the others.
    """
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    c = _load(confidence, counted, row, n, 0.0, MASKED)
    a = _load(correct, counted, row, n, 0.0, MASKED).to(c.dtype)
    pull = _load(pulls, counted, row, n, 0.0, MASKED)
    smoothed = _load(pulls + n, counted, row, n, 0.0, MASKED)
    slope = tl.zeros([1, ROWS], tl.float64)
    for start in range(part * chunk, tl.minimum(n, part * chunk + chunk), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other = _load(confidence, counted, column, n, FAR, MASKED)
        other_a = _load(correct, counted, column, n, 0.0, MASKED).to(c.dtype)
        other_pull = _load(pulls, counted, column, n, 0.0, MASKED)
        other_smoothed = _load(pulls + n, counted, column, n, 0.0, MASKED)
        kernel, difference = _nearness(c, other, SCALE)
        own = pull * (other_a[:, None] - smoothed)
        others = other_pull[:, None] * (a - other_smoothed[:, None])
        slope += _along_columns(kernel * difference * (own + others))
    sign = tl.where(pull > 0, 1.0, tl.where(pull < 0, -1.0, 0.0 * pull)).to(tl.float64)
    slope = -slope * RATE * RATE - tl.where(part == 0, sign, 0.0)
    if MASKED:
        here = tl.load(counted + row, mask=row < n, other=0) != 0
        slope = tl.where(here, slope, 0.0)
    tl.store(slopes + part * n + row, slope, mask=row < n)


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
    """The value and its gradient from what the programs left.

    With ``DIVIDE`` the first number over the second, with ``ROOT`` the root of the first.
    """
    first = tl.zeros([PROGRAMS], tl.float64)
    second = tl.zeros([PROGRAMS], tl.float64)
    for start in range(0, programs, PROGRAMS):
        program = start + tl.arange(0, PROGRAMS)
        there = program < programs
        first += tl.load(totals + program, mask=there, other=0.0)
        second += tl.load(totals + programs + program, mask=there, other=0.0)
    answer, size = tl.sum(first, 0), tl.sum(second, 0)
    factor = 1.0 + 0.0 * answer  # NaN in the value is NaN in all of the gradient.
    if DIVIDE:
        size = tl.maximum(size, 1.0)
        answer = answer / size
        factor = factor / size
    if ROOT:
        answer = tl.sqrt(tl.where(answer < 0, 0.0, answer))
        # As in kernel_calibration: a square below 1e-16 Σ|r|² is rounding.
        factor = factor / (2 * tl.maximum(tl.maximum(answer, 1e-8 * size), 1e-150))
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    slope = _over_parts(slopes, row, n, parts, ROWS, PARTS)
    tl.store(gradient + row, slope * factor, mask=row < n)
    if tl.program_id(0) == 0:
        tl.store(value, answer)
