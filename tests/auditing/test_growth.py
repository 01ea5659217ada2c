"""The audit's time and memory grow with n · K, counted in numbers that are touched, not seconds."""

import tracemalloc

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions
from calibrant.auditing import audit, collect
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    accumulate,
    adaptive_ece,
    augrc,
    aurc,
    auroc,
    classwise_ece,
    confidence_steps,
    ks_error,
    smooth_ece,
)


def drawn(n, classes):
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((n, classes), np.float32)
    return Predictions.from_logits(logits, generator.integers(0, classes, n))


def touched(monkeypatch, p, replicates):
    """The numbers that go through NumPy's binning and through resampling of states."""
    counts = {"binned": 0, "resampled": 0}
    bincount, resampled = np.bincount, CalibrationState.resampled

    def counting_bincount(cell, weights=None, minlength=0):
        counts["binned"] += max(len(cell), minlength)
        return bincount(cell, weights, minlength)

    def counting_resampled(state, weights):
        cells = sum(getattr(state, name)[0].size for name in state.SUMS)
        counts["resampled"] += len(weights) * cells
        return resampled(state, weights)

    with monkeypatch.context() as patch:
        patch.setenv("CALIBRANT_KERNELS", "numpy")
        patch.setattr(np, "bincount", counting_bincount)
        patch.setattr(CalibrationState, "resampled", counting_resampled)
        audit(p.chunks(16), bootstrap=replicates)
    return counts


def test_work_grows_with_the_classes_and_not_faster(monkeypatch):
    few, many = (touched(monkeypatch, drawn(64, classes), 20) for classes in (500, 4000))
    assert many["binned"] <= 1.2 * 8 * few["binned"]
    assert many["resampled"] == few["resampled"]  # What is kept per class is not resampled at all.


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_memory_is_bounded_by_blocks_times_classes(monkeypatch, kernels):
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    monkeypatch.setattr(collect, "_KEPT_SCORES", 0)
    classes = 20_000  # So many that there are only 50 blocks.
    p = drawn(60, classes)
    audit(p[:30], bootstrap=20)  # Compiles.
    held, _ = peak(lambda: audit(p.chunks(20), bootstrap=20))
    # Five sums per class of each block, three tables of bins, and a chunk or two of scores.
    assert held < 8 * classes * (50 * 5 * 1.5 + 3 * 15 * 2 + 8 * 20)


@pytest.mark.parametrize("ties", [True, False])
def test_metrics_that_sort_hold_a_few_numbers_per_example(ties):
    """Beyond the confidences themselves: what ten million examples need must fit a laptop."""
    n, generator = 200_000, np.random.default_rng(0)
    confidence = generator.random(n).round(5 if ties else 15)
    given = Confidences(confidence, generator.random(n) < confidence)
    held, sorted_steps = peak(lambda: confidence_steps(given))
    assert held <= 4.5 * 8 * n
    for metric in (adaptive_ece, smooth_ece, ks_error, auroc, aurc, augrc):
        assert peak(lambda metric=metric: metric(sorted_steps))[0] <= 3.7 * 8 * n + 5e6, metric


def peak(work):
    """Bytes that were held at once beyond those before, and the result."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most - before, result


def test_many_classes_have_the_measures_of_the_state():
    p = drawn(300, 400)
    found = audit(p.chunks(70), bootstrap=50)
    whole = accumulate(p)
    for name in CalibrationState.SUMS:
        np.testing.assert_allclose(
            getattr(found.state, name), getattr(whole, name), rtol=1e-9, atol=1e-12
        )
    measure = {m.name: m for m in found.measures}["classwise_ece"]
    assert measure.value == pytest.approx(classwise_ece(p))
    assert measure.low <= measure.value <= measure.high


def test_bins_beyond_memory_are_refused():
    with pytest.raises(InputError, match=r"at most 3,355 bins for 5,000 classes, got 9,999"):
        audit(drawn(2, 5000), bins=9999)


@pytest.mark.parametrize("keep_together", [None, "document"])
def test_more_labels_than_sums_of_blocks_have_room_for(monkeypatch, keep_together):
    """Answers of a language model: the first chunk has few labels, the next ones thousands."""
    monkeypatch.setattr("calibrant.auditing.groups._MOST_SUMS", 5000)
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 300)
    correct = random.random(300) < confidence
    names = ["a"] * 100 + [f"answer {i}" for i in range(200)]
    true = [name if right else "other" for name, right in zip(names, correct, strict=True)]
    groups = {"document": np.arange(300) // 3}
    claims = Claims.from_top_label(names, confidence, true, groups=groups)
    chunks = [
        Claims.from_top_label(names[i:j], confidence[i:j], true[i:j], groups={"document": g[i:j]})
        for g in groups.values()
        for i, j in ((0, 100), (100, 180), (180, 300))
    ]
    found = audit(iter(chunks), bootstrap=0, keep_together=keep_together)
    rows = {row.name: row for row in found.classes}
    assert len(rows) == 201
    assert rows["a"].predicted == 100
    assert rows["a"].accuracy == pytest.approx(correct[:100].mean())
    assert rows["a"].labelled == correct[:100].sum()
    monkeypatch.undo()
    whole = audit(claims, bootstrap=0, keep_together=keep_together)
    assert {(r.name, r.predicted, r.labelled) for r in whole.classes} == {
        (r.name, r.predicted, r.labelled) for r in found.classes
    }
