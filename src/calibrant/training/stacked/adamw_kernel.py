"""The kernels of :mod:`calibrant.training.stacked.adamw`; only it imports this module."""

import triton
import triton.language as tl

__all__ = ["adamw", "add_squares"]


@triton.jit
def add_squares(gradient, sums, size, BLOCK: tl.constexpr, PART: tl.constexpr):
    """Sum g² over one part of one run, without atomics, so the bits are reproducible."""
    part, run = tl.program_id(0), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    row = gradient + run.to(tl.int64) * size
    for step in range(PART):
        place = (part * PART + step) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(row + place, mask=place < size, other=0.0).to(tl.float32)
        total += value * value
    tl.store(sums + run * tl.num_programs(0) + part, tl.sum(total, 0))


@triton.jit
def adamw(
    master,
    copy,
    gradient,
    first,
    second,
    scale,
    corrections,
    learning_rate,
    size,
    decayed,
    DECAY: tl.constexpr,
    EPSILON: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Take one step for one block of one run."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    inside = place < size
    at = run.to(tl.int64) * size + place
    rate = tl.load(learning_rate).to(tl.float32)
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32) * tl.load(scale + run)
    m = tl.load(first + at, mask=inside, other=0.0)
    v = tl.load(second + at, mask=inside, other=0.0)
    w = tl.load(master + at, mask=inside, other=0.0)
    m = m + (1 - FIRST) * (g - m)
    v = SECOND * v + (1 - SECOND) * g * g
    mean = m / tl.load(corrections).to(tl.float32)
    spread = tl.sqrt(v / tl.load(corrections + 1).to(tl.float32)) + EPSILON
    w = tl.where(place < decayed, w * (1 - rate * DECAY), w) - rate * mean / spread
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    tl.store(master + at, w, mask=inside)
    if COPY:
        tl.store(copy + at, w.to(copy.dtype.element_ty), mask=inside)
