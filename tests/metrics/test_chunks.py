"""Code that walks in chunks, blocks or threads counts every row once, at any size."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.metrics import TopBins, accumulate, ece
from calibrant.metrics.kernel_dispatch import spread
from calibrant.metrics.top_bins import top_bins
from calibrant.predictions import softmax

CLASSES = (2, 3, 5, 7, 9, 10, 11, 12, 16, 17, 31, 64, 100, 301)


@pytest.fixture(params=["numpy", "numba"])
def kernels(request, monkeypatch):
    """Both ways to compute, with chunks so small that a few thousand scores fill many of them."""
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", request.param)
    for module, name, scores in (
        ("kernel_dispatch", "_SMALLEST", 1 << 9),
        ("kernel_dispatch", "_LARGEST", 1 << 10),
        ("top_bins", "_LEAST", 1 << 9),
        ("top_bins", "_CHUNK", 1 << 7),
        ("accumulate", "_CHUNK", 1 << 7),
    ):
        monkeypatch.setattr(import_module(f"calibrant.metrics.{module}"), name, scores)
    return request.param


def drawn(n, classes, dtype=np.float32):
    generator = np.random.default_rng(n * 1000 + classes)
    logits = (2 * generator.normal(size=(n, classes))).astype(dtype)
    labels = generator.integers(0, classes, n)
    labels[::13] = -100
    return logits, labels


def looped(kind, scores, labels, bins=15):
    """Counts, sums of confidences and hits by bin, row after row."""
    count, confidence, correct = np.zeros(bins, int), np.zeros(bins), np.zeros(bins, int)
    edges = np.arange(bins + 1) / bins
    for row, label in zip(scores, labels, strict=True):
        if label == -100:
            continue
        wide = row.astype(np.float64)
        p = np.exp(wide - wide.max()) if kind == "logits" else wide
        p = p / p.sum() if kind == "logits" else p
        k = int(row.argmax())
        where = max(0, int(np.searchsorted(edges, p[k], side="left")) - 1)
        count[where] += 1
        confidence[where] += p[k]
        correct[where] += k == label
    return count, confidence, correct


def assert_sums(state, expected):
    count, confidence, correct = expected
    np.testing.assert_array_equal(state.top_count, count)
    np.testing.assert_array_equal(state.top_correct, correct)
    np.testing.assert_allclose(state.top_confidence, confidence, 3e-7)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_row_is_counted_once(kernels, classes, dtype):
    """Sizes one below, at and one above each whole number of chunks and of tasks."""
    chunk, task = max(1, (1 << 7) // classes), max(1, (1 << 9) // classes)
    for n in sorted({m + d for m in (chunk, task, 2 * task, 5 * task + chunk) for d in (-1, 0, 1)}):
        logits, labels = drawn(n, classes, dtype)
        expected = looped("logits", logits, labels)
        p = Predictions.from_logits(logits, labels)
        for state in (TopBins.from_logits(logits, labels), top_bins(p), accumulate(p)):
            assert_sums(state, expected)
            assert int(state.n) + state.ignored == n


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("classes", [1023, 1024, 1025, 2049, 4095, 4096, 4097])
def test_wide_rows_are_summed_whole(kernels, classes, kind):
    """Around the columns that are summed at a time, 1,024, and the scores of a tile, 4,096."""
    for n in (1, 5, 257):
        logits, labels = drawn(n, classes)
        scores = logits if kind == "logits" else softmax(logits).astype(np.float32)
        labels[::3] = scores[::3].argmax(axis=1)
        p = getattr(Predictions, f"from_{kind}")(scores, labels)
        for state in (top_bins(p), accumulate(p)):
            assert_sums(state, looped(kind, scores, labels))


@pytest.mark.parametrize(
    ("n", "classes"), [(1_000_000, 3), (200_000, 7), (48_000, 11), (6_000, 100), (740, 717)]
)
def test_every_row_is_counted_once_in_chunks_of_the_usual_size(monkeypatch, n, classes):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    scores = np.random.default_rng(0).random((n, classes), np.float32)
    labels = np.zeros(n, np.int64)
    small, whole = (
        TopBins.from_logits(scores, labels),
        accumulate(Predictions.from_logits(scores, labels), classwise=False),
    )
    assert int(small.n) == n
    np.testing.assert_array_equal(small.top_count, whole.top_count)
    assert ece(small) == pytest.approx(ece(whole), rel=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9, 1000])
@pytest.mark.parametrize("cells", [0, 5])
def test_tasks_cover_the_rows_without_overlap(rows, columns, cells):
    parts = spread(range, rows, columns, cells, smallest=8, largest=64)
    assert [row for part in parts for row in part] == list(range(rows))


def test_a_walk_that_repeats_rows_gives_no_number():
    from calibrant.metrics.accumulate import check_counted

    with pytest.raises(RuntimeError, match="counted 1218440 of 1000000 rows"):
        check_counted(1_218_440, 1_000_000)


@pytest.mark.parametrize("classes", [2, 10, 101])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_whichever_kernel_runs_the_numbers_are_as_close_as_documented(
    monkeypatch, classes, kind, dtype
):
    """docs/conventions.md: counts are equal, confidences to the precision of the logits."""
    pytest.importorskip("numba")
    logits, labels = drawn(5000, classes, np.float64)
    scores = (logits if kind == "logits" else softmax(logits)).astype(dtype)
    p = getattr(Predictions, f"from_{kind}")(scores, labels)
    small, whole = {}, {}
    for kernels in ("numpy", "numba"):
        monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
        small[kernels], whole[kernels] = top_bins(p), accumulate(p)
    slack = 1e-7 if kind == "logits" and dtype != np.float64 else 1e-14
    for found in (small, whole):
        np.testing.assert_array_equal(found["numpy"].top_count, found["numba"].top_count)
        np.testing.assert_array_equal(found["numpy"].top_correct, found["numba"].top_correct)
        assert abs(ece(found["numpy"]) - ece(found["numba"])) <= slack
