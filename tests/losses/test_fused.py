"""The fused pair sums against the n × n twins: on a GPU, or in Triton's interpreter where there is
none."""

import sys
import warnings
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant.losses import dominance, fused, gauss_sums, laplace_sums
from calibrant.losses.pairwise import kernel_calibration, order_violation, smooth_gap

CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not CUDA, reason="needs a CUDA GPU")
# Triton's interpreter, of older releases, with NumPy from 1.25.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
# An interpreted program takes milliseconds.
SIZES = [1, 40, 700, 5000] if CUDA else [1, 40]


@pytest.fixture
def device(monkeypatch):
    """Where the kernels can run."""
    if CUDA:
        assert fused.has_triton(), "there is a GPU, but Triton does not compile on it"
        return "cuda"
    if find_spec("triton") is None:
        pytest.skip("needs Triton, which comes with CUDA builds of PyTorch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(fused, "TILES", dict.fromkeys(fused.TILES, fused.Tiles(16, 8, 4, 9)))
    try:
        fused.violation(torch.ones(1), torch.ones(1), None, normalize=True)
    except Exception as error:
        if "0-dimensional" not in str(error):
            raise
        pytest.skip(f"this interpreter of Triton does not know this NumPy: {error}")
    return "cpu"


@pytest.fixture(autouse=True)
def fresh_kernels():
    """Compiled or interpreted is decided at the import."""
    yield
    if not CUDA:
        fused._kernels.cache_clear()
        for name in [name for name in sys.modules if name.startswith("calibrant.losses.triton")]:
            del sys.modules[name]


def example(kind: str, n: int, device: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Confidences, errors, correctness and what counts."""
    g = torch.Generator().manual_seed(n)
    uniform = torch.rand(n, generator=g, dtype=torch.float64)
    confidence = {
        "spread": uniform,
        "piled up": 1 - 0.02 * uniform**6,
        "tied": 0.1 + (uniform * 8).floor() / 10,
        "constant": torch.full_like(uniform, 0.7),
    }[kind]
    error = torch.rand(n, generator=g, dtype=torch.float64)
    if kind == "tied":
        error = (error * 3).floor()
    correct = (torch.rand(n, generator=g, dtype=torch.float64) < 0.7).double()
    counted = torch.rand(n, generator=g) < 0.8
    counted[0] = True
    values = [x.to(dtype) for x in (confidence, error, correct)]
    return [x.to(device) for x in (*values, counted)]


# The n × n ways, which other tests compare with double loops; always in float64.


def twin_violation(confidence, error, counted, normalize):
    value, gradient, pairs = dominance.by_matrix(confidence.double(), error, counted)
    divisor = pairs.clamp(min=1) if normalize else 1
    return value / divisor, gradient / divisor


def twin_kernel(confidence, correct, share, bandwidth):
    confidence, correct, share = (x.double() for x in (confidence, correct, share))
    residual = share * (correct - confidence)
    smoothed, tilt = laplace_sums.sums_by_matrix(confidence, residual, bandwidth)
    value = torch.dot(residual, smoothed).clamp(min=0).sqrt()
    gradient = -(share * smoothed + residual * tilt / bandwidth) / value.clamp(min=1e-150)
    return value, gradient


def twin_gap(confidence, correct, counted, bandwidth):
    weight = counted.double()
    confidence, correct = (x.double().where(counted, 0) for x in (confidence, correct))
    value, gradient = gauss_sums.by_matrix(confidence, correct, weight, bandwidth)
    return value, gradient * weight


def close(got, expected, dtype):
    """float64 to its rounding; float32 to its rounding of the largest entry, as sums cancel."""
    assert got[0].dtype == got[1].dtype == dtype
    for mine, theirs in zip(got, expected, strict=True):
        scale = float(theirs.abs().max())
        tolerance = 1e-10 if dtype == torch.float64 else 1e-6 * scale + 1e-7
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["spread", "piled up", "tied", "constant"])
class TestAgainstTheMatrix:
    @pytest.mark.parametrize("normalize", [True, False])
    def test_violation(self, device, kind, n, dtype, normalize):
        confidence, error, _, counted = example(kind, n, device, dtype)
        got = fused.violation(confidence, error, counted, normalize=normalize)
        close(got, twin_violation(confidence, error, counted, normalize), dtype)

    @pytest.mark.parametrize("bandwidth", [0.4, 1e-3])
    def test_kernel(self, device, kind, n, dtype, bandwidth):
        confidence, _, correct, counted = example(kind, n, device, dtype)
        share = counted.to(dtype) / n
        got = fused.quadratic_form(confidence, correct, share, bandwidth)
        close(got, twin_kernel(confidence, correct, share, bandwidth), dtype)

    @pytest.mark.parametrize("bandwidth", [0.01, 0.3])
    def test_gap(self, device, kind, n, dtype, bandwidth):
        confidence, _, correct, counted = example(kind, n, device, dtype)
        got = fused.smooth_gap(confidence, correct, counted, bandwidth)
        close(got, twin_gap(confidence, correct, counted, bandwidth), dtype)


def test_without_a_mask_all_count(device):
    confidence, error, correct, counted = example("tied", 40, device)
    counted[:] = True
    for mine, theirs in (
        (
            fused.violation(confidence, error, None, normalize=True),
            fused.violation(confidence, error, counted, normalize=True),
        ),
        (
            fused.smooth_gap(confidence, correct, None, 0.01),
            fused.smooth_gap(confidence, correct, counted, 0.01),
        ),
    ):
        assert all(torch.equal(x, y) for x, y in zip(mine, theirs, strict=True))


def test_what_does_not_count_may_hold_anything(device):
    confidence, error, correct, counted = example("spread", 40, device)
    filled = [x.where(counted, torch.nan) for x in (confidence, error, correct)]
    for mine, theirs in (
        (
            fused.violation(*filled[:2], counted, normalize=True),
            fused.violation(confidence, error, counted, normalize=True),
        ),
        (
            fused.smooth_gap(filled[0], filled[2], counted, 0.01),
            fused.smooth_gap(confidence, correct, counted, 0.01),
        ),
    ):
        assert all(torch.equal(x, y) for x, y in zip(mine, theirs, strict=True))


def test_nothing_counted_is_zero(device):
    confidence, error, correct, counted = example("spread", 5, device)
    counted[:] = False
    for value, gradient in (
        fused.violation(confidence, error, counted, normalize=True),
        fused.quadratic_form(confidence, correct, counted.double(), 0.4),
        fused.smooth_gap(confidence, correct, counted, 0.01),
    ):
        assert value == 0
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_nan_in_is_nan_out_everywhere(device):
    confidence, error, correct, counted = example("spread", 40, device)
    confidence[0] = torch.nan  # counted
    for value, gradient in (
        fused.violation(confidence, error, counted, normalize=True),
        fused.quadratic_form(confidence, correct, counted.double(), 0.4),
        fused.smooth_gap(confidence, correct, counted, 0.01),
    ):
        assert value.isnan()
        assert gradient[counted].isnan().all()


@given(
    n=st.integers(1, 300_000), rows=st.sampled_from([128, 512]), columns=st.sampled_from([8, 32])
)
def test_the_plan_covers_every_pair(n, rows, columns):
    plan = fused.Plan.of(n, fused.Tiles(rows, columns))
    assert plan.blocks * rows >= n > (plan.blocks - 1) * rows
    assert plan.parts * plan.chunk >= n > (plan.parts - 1) * plan.chunk
    assert plan.chunk % columns == 0
    assert plan.blocks * plan.parts <= max(528, plan.blocks)


def test_a_kernel_that_reaches_everywhere_is_left_to_the_other_ways(monkeypatch):
    """Examples that do not count are put far away, and it would reach there."""
    monkeypatch.setattr(fused, "serves", lambda *_: True)
    monkeypatch.setattr(fused, "smooth_gap", None)  # Called, it would raise.
    confidence, correct = torch.tensor([0.5, 1.0]), torch.tensor([1.0, 0.0])
    found = smooth_gap(confidence, correct, bandwidth=10 * fused.WIDEST)
    torch.testing.assert_close(found, torch.tensor(0.25))  # |0.5 − 0.5| and |0.5 − 1|.


def test_a_cpu_is_not_served():
    one = torch.ones(3)
    assert not fused.serves("violation", one, one, None)


def test_where_triton_does_not_compile_the_other_ways_are_taken(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fused, "find_spec", lambda _: object())
    monkeypatch.setattr(torch, "ones", fails)
    with pytest.warns(UserWarning, match="more launches: no C compiler"):
        assert not fused.has_triton.__wrapped__()
    monkeypatch.setattr(fused, "find_spec", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fused.has_triton.__wrapped__()


@needs_cuda
class TestOnAGPU:
    @pytest.fixture
    def losses(self):
        confidence, error, correct, counted = example("piled up", 4096, "cuda", torch.float32)
        share = counted.float() / counted.sum()
        leaf = confidence.requires_grad_()
        return leaf, [
            lambda: order_violation(leaf, error, counted),
            lambda: kernel_calibration(leaf, correct, share),
            lambda: smooth_gap(leaf, correct, counted),
        ]

    def test_the_losses_take_this_way(self, losses, monkeypatch):
        for module, name in (
            (dominance, "violation"),
            (laplace_sums, "quadratic_form"),
            (gauss_sums, "smooth_gap"),
        ):
            monkeypatch.setattr(module, name, None)  # Called, it would raise.
        leaf, functions = losses
        for function in functions:
            (gradient,) = torch.autograd.grad(function(), leaf)
            assert gradient.abs().sum() > 0

    def test_the_same_bits_every_time(self, losses):
        leaf, functions = losses
        for function in functions:
            runs = [(v := function(), *torch.autograd.grad(v, leaf)) for _ in range(5)]
            for value, gradient in runs[1:]:
                assert torch.equal(value, runs[0][0])
                assert torch.equal(gradient, runs[0][1])

    @pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
    def test_a_step_can_be_captured(self, losses):
        leaf, functions = losses
        for function in functions:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.autograd.grad(function(), leaf)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                value = function()
                (gradient,) = torch.autograd.grad(value, leaf)
            with torch.no_grad():
                leaf.mul_(0.9)
            graph.replay()
            expected = function()
            assert torch.equal(value, expected)
            assert torch.equal(gradient, torch.autograd.grad(expected, leaf)[0])

    def test_other_shapes_are_left_to_the_other_ways(self):
        confidence = torch.rand(8, device="cuda")
        assert fused.serves("violation", confidence, confidence, None)
        assert not fused.serves("violation", confidence, torch.ones(1, device="cuda"), None)
        assert not fused.serves("violation", confidence, torch.ones(8), None)
        assert not fused.serves("violation", confidence[:0], confidence[:0], None)
