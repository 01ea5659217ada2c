"""A pass of linear calibrators: NumPy and compiled, pieces, chunks and threads, against loops."""

import math

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import StructuredMatrix, StructuredVector, passes
from calibrant.calibrators import linear as linear_module
from calibrant.calibrators.linear_pass import sum_of_nll, sums_of_spread, tempered
from calibrant.calibrators.products import rows_times, sum_of_products


def by_loops(x, labels, weights, intercepts):
    """Σ −log p_y and its gradients, row by row in float64."""
    matrix = np.diag(weights) if weights.ndim == 1 else weights
    loss, w_slope, b_slope = 0.0, np.zeros(matrix.shape), np.zeros(len(intercepts))
    for row, y in zip(x.astype(np.float64), labels, strict=True):
        logits = matrix @ row + intercepts
        e = np.exp(logits - logits.max())
        residual = e / e.sum()
        loss -= math.log(residual[y]) if residual[y] > 0 else logits[y] - logits.max()
        residual[y] -= 1
        w_slope += np.outer(residual, row)
        b_slope += residual
    return loss, np.diag(w_slope) if weights.ndim == 1 else w_slope, b_slope


def drawn(n, classes, dtype, shape):
    rng = np.random.default_rng(n + classes)
    x = (3 * rng.normal(size=(n, classes)) - 5).astype(dtype)
    size = classes if shape == 1 else (classes, classes)
    weights = (np.ones(classes) if shape == 1 else np.eye(classes)) + 0.1 * rng.normal(size=size)
    return x, rng.integers(0, classes, n), weights, rng.normal(size=classes)


@pytest.fixture(params=["numpy", "numba"])
def kernels(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", request.param)
    return request.param


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [1, 2], ids=["vector", "matrix"])
@pytest.mark.parametrize("classes", [2, 33, 40])
@pytest.mark.parametrize("n", [1, 6, 7, 8, 13, 14, 127, 128, 129, 300])
def test_a_pass_is_the_sum_over_rows(n, classes, shape):
    """Sizes around chunks of 7 and 80 rows, and the kernel's block of 128."""
    given = drawn(n, classes, np.float32, shape)
    expected = by_loops(*given)
    for chunk, threads in ((7 * classes, 1), (80 * classes, 1), (1 << 18, 1 << 30)):
        sums = sum_of_nll(*given, chunk=chunk, worth_threads=threads)
        for got, wanted in zip(sums, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=3e-5 * n)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [1, 2])
def test_float64_is_exact(shape):
    given = drawn(50, 36, np.float64, shape)
    for got, wanted in zip(sum_of_nll(*given), by_loops(*given), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("n", [1, 6, 7, 8, 127, 128, 129, 300])
def test_the_spread_of_probabilities_is_the_sum_over_rows(n):
    x, _, weights, intercepts = drawn(n, 36, np.float32, 1)
    expected = np.zeros((3, 36))
    for row in x.astype(np.float64):
        e = np.exp(weights * row + intercepts - (weights * row + intercepts).max())
        p = e / e.sum()
        expected += [p * (1 - p), p * (1 - p) * row, p * (1 - p) * row**2]
    for chunk in (7 * 36, 1 << 18):
        got = sums_of_spread(x, weights, intercepts, chunk=chunk)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * n)


@pytest.mark.parametrize("shape", [1, 2])
def test_the_threads_do_not_change_a_bit(kernels, shape, monkeypatch):
    given = drawn(500, 40, np.float32, shape)
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(passes.os, "cpu_count", lambda count=count: count)
        sums = sum_of_nll(*given, chunk=40 * 33, worth_threads=1)
        found.append(np.concatenate([np.ravel(part) for part in sums]))
    assert (found[0] == found[1]).all(), kernels
    assert (found[0] == found[2]).all(), kernels


def test_far_logits_neither_overflow_nor_vanish():
    """A label 500 nats behind costs 500 nats, in the compiled code too."""
    pytest.importorskip("numba")
    from calibrant.calibrators import linear_compiled

    x = np.zeros((3, 40), np.float32)
    x[:, 7] = 500
    ones, zeros = np.ones(40, np.float32), np.zeros(40, np.float32)
    labels = np.array([7, 0, 0])
    sums = linear_compiled.vector_rows(x, labels, ones, zeros)
    assert sums[-1] == pytest.approx(1000)
    logits = x.copy()
    assert linear_compiled.residual_rows(logits, labels) == pytest.approx(1000)
    np.testing.assert_allclose(logits[0], 0, atol=1e-30)


def test_the_exponential_to_two_units_in_the_last_place():
    pytest.importorskip("numba")
    from calibrant.calibrators.linear_compiled import exp_nonpositive

    x = np.concatenate([[0.0, -1e-8, -1e-3, -86.9, -87.0], -np.geomspace(1e-4, 87, 3000)])
    for value in x.astype(np.float32):
        expected = math.exp(float(value))
        assert abs(float(exp_nonpositive(value)) - expected) <= 2.4e-7 * expected
    assert 0 < exp_nonpositive(np.float32(-1e30)) < 2e-38


@pytest.mark.parametrize("n", [1, 79, 80, 81, 400])
def test_tempered_scores(n, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    scores = (9 * np.random.default_rng(n).normal(size=(n, 40))).astype(np.float32)
    scores.flags.writeable = False
    z = 0.37 * scores.astype(np.float64)
    expected = z - np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
    expected -= z.max(axis=1, keepdims=True)
    got = tempered(scores, 0.37, chunk=80 * 40, worth_threads=1)
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_code_is_compiled_only_where_it_pays(monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    assert tempered(np.zeros((4, 40), np.float32), 1.0) is None
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    assert tempered(np.zeros((4, 40)), 1.0) is None  # Float64 keeps its precision.
    assert tempered(np.zeros((4, 32), np.float32), 1.0) is None  # Rows too short for vectors.


@pytest.mark.parametrize("calibrator", [StructuredVector, StructuredMatrix])
@pytest.mark.parametrize("classes", [36, 130])
def test_both_paths_fit_the_same_map(calibrator, classes, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(linear_module, "_LARGE", 1)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, 3000)
    logits = rng.normal(size=(3000, classes)).astype(np.float32)
    logits[np.arange(3000), labels] += 3
    p = Predictions.from_logits(2 * logits + rng.normal(size=classes).astype(np.float32), labels)
    found = []
    for kernels in ("numpy", "numba"):
        monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
        found.append(calibrator().fit(p))
    first, second = (one.transform(p).probabilities() for one in found)
    np.testing.assert_allclose(first, second, atol=2e-4)
    nlls = [one.fitted_on_["nll_after"] for one in found]
    assert nlls[0] == pytest.approx(nlls[1], abs=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 50])
def test_products_in_pieces(n):
    rng = np.random.default_rng(n)
    a, b, matrix = rng.normal(size=(n, 4)), rng.normal(size=(n, 3)), rng.normal(size=(4, 3))
    for sizes in ((12, 1), (24, 1), (24, 3), (1 << 18, 16)):
        np.testing.assert_allclose(rows_times(a, matrix, *sizes), a @ matrix, atol=1e-12)
        np.testing.assert_allclose(sum_of_products(a, b, *sizes), a.T @ b, atol=1e-12)
    strided = rng.normal(size=(3 * n, 4))[::3]
    np.testing.assert_allclose(rows_times(strided, matrix), strided @ matrix, atol=1e-12)
