"""Accumulation in torch equals accumulation in NumPy, on the CPU and where there is one a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.metrics import CalibrationState, accumulate, ece, top_label

torch = pytest.importorskip("torch")
tensors = pytest.importorskip("calibrant.metrics.tensors")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def by_torch(p: Predictions, bins, block=None, blocks=1, classwise=True) -> CalibrationState:
    state = CalibrationState.empty(p.classes, bins, classwise=classwise, blocks=(blocks,))
    tensors.add_tensors(state, p, block, chunk=1 << 10)
    n, correct = state.top_count.sum(axis=-1), state.top_correct.sum(axis=-1)
    state = replace(state, n=n, correct=correct, ignored=p.ignored)
    return state if block is not None else state.total()


def assert_equal(ours, reference):
    for name in CalibrationState.SUMS:
        one, other = getattr(ours, name), getattr(reference, name)
        assert one.shape == other.shape, name
        if one.dtype.kind == "i":
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("classes", [2, 10, 200])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_equals_numpy(device, kind, classes, dtype):
    generator = torch.Generator().manual_seed(classes)
    scores = (3 * torch.randn(500, classes, generator=generator)).to(getattr(torch, dtype))
    scores = scores if kind == "logits" else scores.double().softmax(1).to(scores.dtype)
    labels = torch.randint(0, classes, (500,), generator=generator)
    labels[::7] = -100
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
    p, host = make(scores.to(device), labels), make(scores, labels)
    for closed in ("right", "left"):
        reference = accumulate(host, 10, closed=closed)
        ours = by_torch(p, reference.bins)
        assert ours.ignored == 72
        assert_equal(ours, reference)
        assert_equal(accumulate(p, 10, closed=closed), reference)
    for one, other in zip(top_label(p), top_label(host.numpy()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
def test_edge_values(device):
    values = np.arange(16) / 15
    for dtype in (torch.float16, torch.float32, torch.float64):
        scores = torch.tensor(np.stack([values, 1 - values], axis=1)).to(dtype)
        p = Predictions.from_probabilities(scores, torch.arange(16) % 2)
        reference = accumulate(p.numpy())
        assert_equal(
            by_torch(Predictions.from_probabilities(scores.to(device), p.labels), reference.bins),
            reference,
        )
    uniform = Predictions.from_logits(torch.full((3, 5), 2.5, device=device), [0, 1, 2])
    assert by_torch(uniform, accumulate(uniform, 5).bins).top_count.tolist() == [3, 0, 0, 0, 0]
    saturated = Predictions.from_logits(torch.tensor([[1e4, 0.0]], device=device), [0])
    assert by_torch(saturated, accumulate(saturated).bins).top_confidence[-1] == 1.0
    zero = Predictions.from_probabilities(torch.tensor([[1.0, 0.0]], device=device), [1])
    assert by_torch(zero, accumulate(zero).bins).nll == np.inf


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_and_no_classes(device):
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(300, 4, generator=generator), torch.arange(300) % 4
    block = np.arange(300) // 50
    p = Predictions.from_logits(scores.to(device), labels)
    reference = accumulate(p.numpy(), block=block, blocks=7, classwise=False)
    assert_equal(by_torch(p, reference.bins, block, 7, classwise=False), reference)
    assert_equal(accumulate(p, block=block, blocks=7, classwise=False), reference)


@pytest.mark.parametrize("device", DEVICES)
def test_empty(device):
    p = Predictions.from_logits(torch.empty(0, 3, device=device), torch.empty(0, dtype=torch.long))
    assert by_torch(p, accumulate(p).bins).n == 0
    assert np.isnan(ece(p))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_keeps_the_scores_and_little_more():
    scores = torch.randn(2_000_000, 100, device="cuda")
    p = Predictions.from_logits(scores, torch.zeros(2_000_000, dtype=torch.long, device="cuda"))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    accumulate(p)
    assert torch.cuda.max_memory_allocated() - before < 512 << 20
