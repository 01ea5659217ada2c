"""The pair sums on a GPU, all pairs in tiles on chip: O(n) memory, few launches.

At the sizes of a batch a GPU spends its time on launches and on moving n × n matrices. Here each
sum is two to four kernels (:mod:`.triton`, in Triton, which CUDA builds of PyTorch bring
along): O(n²) arithmetic, but on chip, so it wins over sorting up to tens of thousands of examples.
Nothing waits for the GPU and no shape depends on the data: a step can be captured in a CUDA graph,
after the warm-up that every capture needs.

Precision. :func:`quadratic_form`, whose sums cancel, computes in float64 for any input, as
the other modules do. :func:`violation` and :func:`smooth_gap` compute each pair in the type of the
confidences, add up sixteen at a time in it and then in float64: with float64 confidences exact to
its rounding, with float32 to a few 1e-7 of the sum of the magnitudes.

If Triton is missing or cannot compile (it needs a C compiler), and under ``torch.compile``,
:func:`serves` returns False and the other modules do the work.
"""

import math
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["FUSED_BELOW", "has_triton", "quadratic_form", "serves", "smooth_gap", "violation"]

FUSED_BELOW = {
    "violation": {torch.float32: 65_536, torch.float64: 16_384},
    "quadratic_form": {torch.float32: 16_384, torch.float64: 16_384},
    "smooth_gap": {torch.float32: 16_384, torch.float64: 16_384},
}
"""Up to this n all pairs on chip are used.

Measured on an H200 in float32: ``violation`` takes 2.5 ms at 65,536 and sorting 4.9 ms (1.7 ms in a
CUDA graph), ``quadratic_form`` 0.5 ms at 16,384 against 1.6 ms (0.25 against 0.33 ms in a graph),
``smooth_gap`` 0.43 ms against 2.25 ms (0.30 against 0.27 ms). float64 is set as low as these.
"""

STEEPEST = 1400
"""Largest 1/h of the Laplacian kernel: exp(1 / 2h) must not overflow."""

WIDEST = 100
"""Largest h of the Gaussian kernel: it must not reach the place of uncounted examples."""

Known = tuple[Float[Tensor, ""], Float[Tensor, " n"]]
"""A value and its gradient."""


class Tiles(NamedTuple):
    """The tiling of the pairs: rows and columns of a tile, warps and number of programs wanted."""

    rows: int
    columns: int
    warps: int = 4
    programs: int = 528

    @property
    def sizes(self) -> dict[str, Any]:
        """What a kernel that walks over tiles is compiled for."""
        return {"ROWS": self.rows, "COLUMNS": self.columns, "num_warps": self.warps}


TILES = {torch.float32: Tiles(512, 16), torch.float64: Tiles(256, 8)}
"""Sixty-four or sixteen pairs for each thread, which fit its registers; four programs for each of
the 132 multiprocessors of an H200."""


class Plan(NamedTuple):
    """The grid of programs: blocks of rows × parts of the columns, ``chunk`` columns each."""

    blocks: int
    parts: int
    chunk: int

    @classmethod
    def of(cls, n: int, tiles: Tiles) -> "Plan":
        """Plan enough parts to fill the chip, each of whole tiles.

        >>> Plan.of(4096, Tiles(512, 16))
        Plan(blocks=8, parts=64, chunk=64)
        >>> Plan.of(1_000_000, Tiles(512, 16))
        Plan(blocks=1954, parts=1, chunk=1000000)
        """
        blocks = math.ceil(n / tiles.rows)
        steps = math.ceil(n / tiles.columns)
        each = math.ceil(steps / max(1, min(steps, tiles.programs // blocks)))
        return cls(blocks, math.ceil(steps / each), each * tiles.columns)


def serves(name: str, confidence: Float[Tensor, " n"], *others: Tensor | None) -> bool:
    """Whether this module computes the sum ``name`` of these inputs."""
    if not confidence.is_cuda or torch.compiler.is_compiling():
        return False
    here = confidence.shape, confidence.device
    if any(x is not None and (x.shape, x.device) != here for x in others):
        return False  # The other modules broadcast, or raise a clear error.
    below = FUSED_BELOW[name].get(confidence.dtype, 0)
    return confidence.dim() == 1 and 0 < confidence.numel() <= below and has_triton()


def violation(
    confidence: Float[Tensor, " n"],
    error: Float[Tensor, " n"],
    counted: Bool[Tensor, " n"] | None,
    *,
    normalize: bool,
) -> Known:
    """Compute :func:`.dominance.violation`, divided by the number of pairs if ``normalize``."""
    n, tiles = confidence.numel(), TILES[confidence.dtype]
    plan = Plan.of(n, tiles)
    slopes, totals = _room(confidence, plan)
    mask = _bytes(counted)
    with _device(confidence):
        _kernels("violation").violation_slopes[plan.blocks, plan.parts](
            confidence.contiguous(),
            error.contiguous(),
            confidence if mask is None else mask,
            slopes,
            totals,
            n,
            plan.chunk,
            MASKED=mask is not None,
            **tiles.sizes,
        )
        return _finish(confidence, slopes, totals, DIVIDE=normalize, ROOT=False)


def quadratic_form(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    share: Float[Tensor, " n"],
    bandwidth: float,
) -> Known:
    """Return the square root of :func:`.laplace_sums.quadratic_form` and its gradient."""
    n, tiles = confidence.numel(), TILES[confidence.dtype]
    plan = Plan.of(n, tiles)
    confidence, share = confidence.contiguous(), share.contiguous()
    slopes, totals = _room(confidence, plan)
    columns = slopes.new_empty(5, n)
    with _device(confidence):
        _kernels("laplace").kernel_residuals[(math.ceil(n / 128),)](
            confidence, correct.contiguous(), share, columns, n, RATE=1 / bandwidth, ROWS=128
        )
        _kernels("laplace").kernel_slopes[plan.blocks, plan.parts](
            confidence,
            share,
            columns,
            slopes,
            totals,
            n,
            plan.chunk,
            RATE=1 / bandwidth,
            **tiles.sizes,
        )
        return _finish(confidence, slopes, totals, DIVIDE=False, ROOT=True)


def smooth_gap(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    counted: Bool[Tensor, " n"] | None,
    bandwidth: float,
) -> Known:
    """Compute :func:`.gauss_sums.smooth_gap`."""
    n, tiles = confidence.numel(), TILES[confidence.dtype]
    plan = Plan.of(n, tiles)
    blocks = math.ceil(n / 64)
    confidence, correct, mask = confidence.contiguous(), correct.contiguous(), _bytes(counted)
    inputs = confidence, correct, confidence if mask is None else mask
    slopes, _ = _room(confidence, plan)
    sums, totals = slopes.new_empty(2, plan.parts, n), slopes.new_empty(2, blocks)
    pulls = confidence.new_empty(2, n)
    cut: dict[str, Any] = {
        "MASKED": mask is not None,
        "SCALE": math.sqrt(math.log2(math.e) / 2) / bandwidth,
        **tiles.sizes,
    }
    grid, kernels = (plan.blocks, plan.parts), _kernels("gauss")
    with _device(confidence):
        kernels.gap_averages[grid](*inputs, sums, n, plan.chunk, **cut)
        kernels.gap_pulls[(blocks,)](
            inputs[0], inputs[2], sums, pulls, totals, n, plan.parts,
            MASKED=mask is not None, ROWS=64, PARTS=16,
        )  # fmt: skip
        kernels.gap_slopes[grid](*inputs, pulls, slopes, n, plan.chunk, RATE=1 / bandwidth, **cut)
        return _finish(confidence, slopes, totals, DIVIDE=True, ROOT=False)


def _room(like: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Allocate one number for each row and part, and two for each program."""
    slopes = torch.empty(plan.parts, like.numel(), dtype=torch.float64, device=like.device)
    return slopes, slopes.new_empty(2, plan.blocks * plan.parts)


def _finish(
    confidence: Tensor, slopes: Tensor, totals: Tensor, *, DIVIDE: bool, ROOT: bool
) -> Known:
    gradient, value = torch.empty_like(confidence), confidence.new_empty(())
    n, rows = confidence.numel(), 64
    _kernels("shared").finish[(math.ceil(n / rows),)](
        slopes,
        totals,
        gradient,
        value,
        n,
        slopes.shape[0],
        totals.shape[1],
        ROOT=ROOT,
        DIVIDE=DIVIDE,
        ROWS=rows,
        PARTS=16,
        PROGRAMS=1024,
    )
    return value, gradient


def _device(confidence: Tensor) -> AbstractContextManager[Any]:
    # Triton launches on the current device, even if its arguments are elsewhere.
    return torch.cuda.device(confidence.device) if confidence.is_cuda else nullcontext()


def _bytes(counted: Tensor | None) -> Tensor | None:
    return None if counted is None else counted.contiguous().view(torch.uint8)


@cache
def _kernels(module: str) -> Any:
    return import_module(f"calibrant.losses.triton.{module}")


@cache
def has_triton() -> bool:
    """Whether Triton is present and compiles: tried once, on the most needed kernel."""
    if find_spec("triton") is None:
        return False
    try:
        one = torch.ones(1, device="cuda")
        violation(one, one, one.bool(), normalize=True)
    except Exception as error:  # Any error means: without Triton.
        warnings.warn(
            f"Triton cannot compile here, so losses and optimizers take more launches: {error}",
            stacklevel=4,
        )
        return False
    return True
