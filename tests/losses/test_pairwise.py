"""The fast pair sums against the double loop: values and gradients, ties, edges."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses import dominance, fused, gauss_sums, laplace_sums
from calibrant.losses.pairwise import kernel_calibration, order_violation, smooth_gap

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    ),
]


@pytest.fixture(params=["fast", "matrix"])
def way(request, monkeypatch):
    """Run the test both ways, for any n; the fused one has its own tests."""
    monkeypatch.setattr(fused, "serves", lambda *_: False)
    limit = {"fast": 0, "matrix": 10**9}[request.param]
    for module in (dominance, laplace_sums, gauss_sums):
        monkeypatch.setattr(module, "MATRIX_BELOW", dict.fromkeys(("cpu", "cuda"), limit))


# The twins: double loops over numbers for the value, n × n autograd for the gradient.


def loop_violation(confidence, error, counted):
    total, pairs = 0.0, 0
    for c_i, e_i, k_i in zip(confidence, error, counted, strict=True):
        for c_j, e_j, k_j in zip(confidence, error, counted, strict=True):
            if k_i and k_j and e_i > e_j:
                total += max(0.0, c_i - c_j) ** 2
                pairs += 1
    return total, pairs


def loop_kernel(confidence, correct, share, bandwidth):
    total = 0.0
    for c_i, a_i, s_i in zip(confidence, correct, share, strict=True):
        for c_j, a_j, s_j in zip(confidence, correct, share, strict=True):
            kernel = math.exp(-abs(c_i - c_j) / bandwidth)
            total += s_i * s_j * (a_i - c_i) * (a_j - c_j) * kernel
    return math.sqrt(max(total, 0.0))


def loop_gap(confidence, correct, counted, bandwidth):
    kept = [(c, a) for c, a, k in zip(confidence, correct, counted, strict=True) if k]
    total = 0.0
    for c_i, _ in kept:
        weights = [math.exp(-((c_i - c_j) ** 2) / (2 * bandwidth**2)) for c_j, _ in kept]
        hits = sum(w * a for w, (_, a) in zip(weights, kept, strict=True))
        total += abs(hits / sum(weights) - c_i)
    return total / max(len(kept), 1)


def matrix_violation(c: Tensor, e: Tensor, counted: Tensor) -> Tensor:
    worse = (e[:, None] > e) & counted & counted[:, None]
    return ((c[:, None] - c).clamp(min=0).square() * worse).sum()


def matrix_kernel(c: Tensor, a: Tensor, share: Tensor, bandwidth: float) -> Tensor:
    r = share * (a - c)
    return (r[:, None] * r * (-(c[:, None] - c).abs() / bandwidth).exp()).sum().sqrt()


def matrix_gap(c: Tensor, a: Tensor, counted: Tensor, bandwidth: float) -> Tensor:
    c, a = c[counted], a[counted]
    kernel = (-(c[:, None] - c).square() / (2 * bandwidth**2)).exp()
    return ((kernel @ a) / kernel.sum(1) - c).abs().mean()


def example(kind: str, n: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Confidences, errors, correctness and what counts, in float64."""
    g = torch.Generator().manual_seed(n)
    uniform = torch.rand(n, generator=g, dtype=torch.float64)
    confidence = {
        "spread": uniform,
        "piled up": 1 - 0.02 * uniform**6,
        "tied": (uniform * 8).floor() / 8,
        "one ulp": 0.9 + torch.randint(4, (n,), generator=g).double() * 2.0**-53,
        "ends": (uniform > 0.5).double(),
        "constant": torch.full_like(uniform, 0.7),
        "outlier": torch.where(torch.arange(n) == 0, 0.01, 1 - 1e-3 * uniform),
    }[kind]
    error = torch.rand(n, generator=g, dtype=torch.float64)
    if kind in ("tied", "ends"):
        error = (error * 3).floor()
    correct = (torch.rand(n, generator=g, dtype=torch.float64) < 0.7).double()
    counted = torch.rand(n, generator=g) < 0.8
    return tuple(x.to(device) for x in (confidence, error, correct, counted))  # type: ignore[return-value]


KINDS = ["spread", "piled up", "tied", "one ulp", "ends", "constant", "outlier"]


def differentiate(function, confidence: Tensor) -> tuple[Tensor, Tensor]:
    leaf = confidence.clone().requires_grad_()
    value = function(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def close(got, expected):
    torch.testing.assert_close(got[0], expected[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got[1], expected[1], rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 2, 3, 33, 700])
@pytest.mark.parametrize("kind", KINDS)
class TestAgainstTheMatrixTwin:
    def test_violation(self, kind, n, device):
        confidence, error, _, counted = example(kind, n, device)
        pairs = ((error[:, None] > error) & counted & counted[:, None]).sum().clamp(min=1)
        got = differentiate(lambda c: order_violation(c, error, counted), confidence)
        close(got, differentiate(lambda c: matrix_violation(c, error, counted) / pairs, confidence))

    @pytest.mark.parametrize("bandwidth", [0.4, 0.01, 1e-3])
    def test_kernel(self, kind, n, device, bandwidth):
        confidence, _, correct, counted = example(kind, n, device)
        if kind == "ends":  # a = c exactly, for many: move off the root of 0.
            confidence = 0.1 + 0.8 * confidence
        share = counted.double() / n
        if not counted.any():
            return
        got = differentiate(lambda c: kernel_calibration(c, correct, share, bandwidth), confidence)
        close(got, differentiate(lambda c: matrix_kernel(c, correct, share, bandwidth), confidence))

    @pytest.mark.parametrize("bandwidth", [0.01, 0.3, 1e-3])
    def test_gap(self, kind, n, device, bandwidth):
        confidence, _, correct, counted = example(kind, n, device)
        if not counted.any():
            return
        got = differentiate(lambda c: smooth_gap(c, correct, counted, bandwidth), confidence)
        close(got, differentiate(lambda c: matrix_gap(c, correct, counted, bandwidth), confidence))


tied = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 0.5 + 2**-52, 0.75, 0.999, 1.0]) | st.floats(0, 1),
        st.integers(0, 2).map(float) | st.sampled_from([-math.inf, math.inf]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.usefixtures("way")
class TestAgainstTheLoop:
    @given(rows=tied)
    def test_violation(self, rows):
        confidence, error, _, counted = columns(rows)
        inputs = (*tensors(confidence, error), torch.tensor(counted).bool())
        total, pairs = loop_violation(confidence, error, counted)
        value = order_violation(*inputs, normalize=False)
        assert float(value) == pytest.approx(total, abs=1e-12)
        assert float(order_violation(*inputs)) == pytest.approx(total / max(pairs, 1), abs=1e-12)
        assert dominance.violation(*inputs)[2] == pairs

    @given(rows=tied, bandwidth=st.sampled_from([0.4, 0.05, 1e-3]))
    def test_kernel(self, rows, bandwidth):
        confidence, _, correct, counted = columns(rows)
        share = [float(k) / 3 for k in counted]
        value = kernel_calibration(*tensors(confidence, correct, share), bandwidth)
        # A square root: 1e-14 in the square is 1e-7 at 0.
        expected = loop_kernel(confidence, correct, share, bandwidth)
        assert float(value) ** 2 == pytest.approx(expected**2, abs=1e-12)

    @given(rows=tied, bandwidth=st.sampled_from([0.01, 0.2, 1e-3]))
    def test_gap(self, rows, bandwidth):
        confidence, _, correct, counted = columns(rows)
        value = smooth_gap(
            *tensors(confidence, correct), torch.tensor(counted).bool(), bandwidth=bandwidth
        )
        expected = loop_gap(confidence, correct, counted, bandwidth)
        assert float(value) == pytest.approx(expected, abs=1e-12)


def columns(rows):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return columns[0], columns[1], [float(a) for a in columns[2]], columns[3]


def tensors(*columns):
    return [torch.tensor(column, dtype=torch.float64) for column in columns]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [0, 1, 2, 600])
def test_nothing_counted_is_zero(n):
    confidence = torch.rand(n, dtype=torch.float64, requires_grad=True)
    other, nothing = torch.rand(n, dtype=torch.float64), torch.zeros(n, dtype=torch.bool)
    value = order_violation(confidence, other, nothing)
    value = value + kernel_calibration(confidence, other, nothing.double())
    value = value + smooth_gap(confidence, other, nothing)
    value.backward()
    assert value == 0
    assert torch.equal(confidence.grad, torch.zeros(n, dtype=torch.float64))


@pytest.mark.usefixtures("way")
def test_what_does_not_count_may_hold_anything():
    confidence, error, correct, counted = example("spread", 50)
    expected = (
        order_violation(confidence, error, counted),
        smooth_gap(confidence, correct, counted),
    )
    confidence[~counted] = torch.nan
    error[~counted] = torch.inf
    got = order_violation(confidence, error, counted), smooth_gap(confidence, correct, counted)
    assert torch.equal(torch.stack(got), torch.stack(expected))


def test_both_ways_meet_at_the_switch():
    for n in (dominance.MATRIX_BELOW["cpu"], dominance.MATRIX_BELOW["cpu"] + 1):
        confidence, error, correct, counted = example("piled up", n)
        close(
            dominance.by_levels(confidence, error, counted)[:2],
            dominance.by_matrix(confidence, error, counted)[:2],
        )
        weight = counted.double()
        close(
            gauss_sums.by_cells(confidence * weight, correct * weight, weight, 0.01),
            gauss_sums.by_matrix(confidence * weight, correct * weight, weight, 0.01),
        )


def test_the_error_bound_of_the_gauss_transform_holds():
    # One source, one target, at every distance within the reach and at the corners of the cells.
    position = torch.linspace(0, 20, 4001, dtype=torch.float64)
    sources = torch.zeros(1, 4001, dtype=torch.float64)
    for place in (0, 777, 2000, 4000):
        sources.zero_()[0, place] = 1
        value, slope = gauss_sums.CellSums(position, 1 / 20)(sources)
        distance = position - position[place]
        expected = (-distance.square() / 2).exp()
        assert float((value[0] - expected).abs().max()) < 1e-15
        assert float((slope[0] + distance * expected).abs().max()) < 1e-15


def test_a_lonely_example_keeps_its_digits_beside_a_crowd():
    # The sums of the crowd must not swallow what is far from it.
    confidence = torch.full((100_001,), 0.999, dtype=torch.float64)
    confidence[0] = 0.2
    value = smooth_gap(confidence, torch.ones_like(confidence))
    assert float(value) == pytest.approx((0.8 + 100.0) / 100_001, rel=1e-13)


def test_large_n_agrees_with_sums_in_blocks():
    confidence, error, correct, _ = example("piled up", 5000)
    total, _, pairs = dominance.violation(confidence, error, None)
    blocks = [slice(i, i + 250) for i in range(0, 5000, 250)]
    excess = [
        ((confidence[b, None] - confidence).clamp(min=0) * (error[b, None] > error)).square().sum()
        for b in blocks
    ]
    torch.testing.assert_close(total, torch.stack(excess).sum(), rtol=1e-11, atol=0)
    assert pairs == 5000 * 4999 // 2
    smoothed = []
    for b in blocks:
        kernel = (-(confidence[b, None] - confidence).square() / (2 * 0.01**2)).exp()
        smoothed.append((kernel @ correct) / kernel.sum(1))
    expected = (torch.cat(smoothed) - confidence).abs().mean()
    torch.testing.assert_close(smooth_gap(confidence, correct), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [2, 700])
@pytest.mark.parametrize("name", ["order_violation", "kernel_calibration", "smooth_gap"])
@pytest.mark.parametrize("place", ["bare", "summed", "multiplied", "in a network"])
def test_a_second_derivative_is_refused(name, place, n):
    """Wherever the loss stands, and not only where something upstream needs a gradient."""
    leaf = torch.linspace(0.1, 0.9, n, dtype=torch.float64, requires_grad=True)
    confidence = leaf.sigmoid() if place == "in a network" else leaf
    other = (torch.arange(n) % 2).double()
    value = {
        "order_violation": order_violation,
        "kernel_calibration": partial(kernel_calibration, share=other + 1),
        "smooth_gap": smooth_gap,
    }[name](confidence, other)
    if place == "summed":
        value = value + confidence.square().sum()
    if place == "multiplied":
        value = value * confidence[0]
    (expected,) = torch.autograd.grad(value, leaf, retain_graph=True)
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
    torch.testing.assert_close(gradient, expected)
    with pytest.raises(NotImplementedError, match="have no second derivative"):
        gradient.sum().backward()


def test_takes_numpy_confidences_as_a_metric():
    confidence = np.array([0.75, 0.75])
    value = smooth_gap(torch.from_numpy(confidence), torch.tensor([1.0, 0.0]))
    assert float(value) == 0.25


def test_a_bandwidth_of_nothing_is_an_error():
    one = torch.ones(1)
    with pytest.raises(InputError, match="above 0; got 0"):
        kernel_calibration(one, one, one, bandwidth=0.0)
    with pytest.raises(InputError, match=r"at least 0\.0001; got 1e-09"):
        smooth_gap(one, one, bandwidth=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [1, 8, 256, 4096])
def test_levels_that_stop_at_any_row_length(kind, row, monkeypatch):
    monkeypatch.setattr(dominance, "DENSE_ROW", {"cpu": row})
    monkeypatch.setattr(dominance, "MOST_DENSE_PAIRS", 1 << 20)
    confidence, error, _, counted = example(kind, 700)
    got = dominance.by_levels(confidence, error, counted)
    expected = dominance.by_matrix(confidence, error, counted)
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_dense_rows_are_bounded_in_memory(monkeypatch):
    monkeypatch.setattr(dominance, "DENSE_ROW", {"cpu": 256})
    monkeypatch.setattr(dominance, "MOST_DENSE_PAIRS", 1 << 14)
    assert [dominance._dense_levels(torch.empty(1 << k)) for k in (2, 6, 8, 10, 13, 20)] == [
        2,
        6,
        6,
        4,
        1,
        0,
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bandwidth", [0.01, 0.3, 1e-3])
def test_all_powers_at_once_give_the_same_gap(kind, bandwidth, monkeypatch):
    monkeypatch.setattr(gauss_sums, "AT_ONCE", {"cpu": 1 << 18})
    confidence, _, correct, counted = example(kind, 700)
    confidence, correct = confidence.where(counted, 0), correct.where(counted, 0)
    arguments = (confidence, correct, counted.double(), bandwidth)
    for mine, theirs in zip(
        gauss_sums.by_cells(*arguments), gauss_sums.by_matrix(*arguments), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
