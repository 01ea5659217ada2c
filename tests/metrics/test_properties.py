"""Properties that hold for all inputs."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions, metrics
from calibrant.metrics import Bins, CalibrationState, Confidences, accumulate, confidences
from calibrant.metrics.adaptive import equal_mass_bin

CLASSES = {m.name: m for m in metrics.METRICS.values() if m.kind == "classes"}
ADDITIVE = [name for name, m in CLASSES.items() if m.source[0] in ("state", "classwise")]
SORTED = [name for name, m in CLASSES.items() if m.source == ("confidences",)]
SHARES = [name for name, m in CLASSES.items() if m.most == 1 and name != "auroc"]


@st.composite
def some_predictions(draw, least=1):
    """Few examples of few classes; logits on a coarse grid, so that ties and edges abound."""
    n, classes = draw(st.integers(least, 30)), draw(st.integers(2, 4))
    cell = st.integers(-40, 40).map(lambda v: v / 4)
    row = st.lists(cell, min_size=classes, max_size=classes)
    logits = np.array(draw(st.lists(row, min_size=n, max_size=n))).reshape(n, classes)
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    dtype = draw(st.sampled_from(["f2", "f4", "f8"]))
    if draw(st.booleans()):
        return Predictions.from_logits(logits.astype(dtype), labels)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-99))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    return Predictions.from_probabilities(probabilities.astype(dtype), labels)


def close(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, rel=1e-9, abs=1e-12)


@given(p=some_predictions(0), cut=st.integers(0, 30))
def test_merged_states_give_the_number_of_the_whole(p, cut):
    whole, merged = accumulate(p), accumulate(p[:cut]) + accumulate(p[cut:])
    for name in ADDITIVE:
        metric = CLASSES[name].function
        assert close(metric(merged), metric(whole)), name
        assert close(metric(p), metric(whole)), name


@given(p=some_predictions(0), cut=st.integers(0, 30))
def test_merged_counts_are_equal_to_the_last_bit(p, cut):
    whole, merged = accumulate(p), sum([accumulate(p[cut:]), accumulate(p[:cut])])
    for name in CalibrationState.SUMS:
        mine, theirs = getattr(merged, name), getattr(whole, name)
        assert mine.dtype == theirs.dtype
        if mine.dtype == np.int64:
            assert mine.tolist() == theirs.tolist()
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@given(p=some_predictions(0), cut=st.integers(0, 30))
def test_shards_of_confidences_in_any_order(p, cut):
    merged = sum([confidences(p[cut:]), confidences(p[:cut])])
    for name in SORTED:
        metric = CLASSES[name].function
        assert close(metric(merged), metric(p)), name


@given(p=some_predictions(), seed=st.integers(0, 99))
def test_permutation(p, seed):
    order = np.random.default_rng(seed).permutation(len(p))
    for name in CLASSES:
        metric = CLASSES[name].function
        assert close(metric(p[order]), metric(p)), name


@given(p=some_predictions(), rows=st.integers(1, 7))
def test_the_size_of_chunks_does_not_matter(p, rows):
    whole, parts = accumulate(p), sum(accumulate(part) for part in p.chunks(rows))
    for name in ADDITIVE:
        metric = CLASSES[name].function
        assert close(metric(parts), metric(whole))


def test_many_chunks_inside_one_call():
    """More rows than one internal chunk holds, against a sum of small states."""
    rng = np.random.default_rng(0)
    p = Predictions.from_logits(rng.normal(size=(100_000, 3)), rng.integers(0, 3, 100_000))
    whole, parts = accumulate(p), sum(accumulate(part) for part in p.chunks(9_973))
    assert whole.top_count.tolist() == parts.top_count.tolist()
    assert whole.class_correct.tolist() == parts.class_correct.tolist()
    np.testing.assert_allclose(whole.class_confidence, parts.class_confidence, rtol=1e-12)


@given(p=some_predictions(0), closed=st.sampled_from(["right", "left"]), classwise=st.booleans())
def test_json_gives_the_same_state(p, closed, classwise):
    state = accumulate(p, 7, closed=closed, classwise=classwise)
    again = CalibrationState.from_json(state.to_json())
    assert (again.bins, again.classes, again.ignored) == (state.bins, state.classes, state.ignored)
    for name in CalibrationState.SUMS:
        mine, theirs = getattr(again, name), getattr(state, name)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert mine.tolist() == theirs.tolist()
    assert again + state is not None


@given(p=some_predictions(0), blocked=st.booleans())
def test_json_of_confidences(p, blocked):
    state = confidences(p, np.arange(len(p)) % 3 if blocked else None)
    again = Confidences.from_json(state.to_json())
    assert again.confidence.tolist() == state.confidence.tolist()
    assert again.correct.tolist() == state.correct.tolist()
    assert (again.block is not None) == blocked
    assert len(again + state) == 2 * len(p)


@given(p=some_predictions())
def test_json_of_blocks(p):
    state = accumulate(p, 3, block=np.arange(len(p)) % 4, blocks=4)
    again = CalibrationState.from_json(state.to_json())
    assert all(getattr(again, s).tolist() == getattr(state, s).tolist() for s in state.SUMS)


@given(p=some_predictions())
def test_blocks_add_up_to_the_whole(p):
    blocked, whole = accumulate(p, block=np.arange(len(p)) % 4, blocks=4), accumulate(p)
    for name in CalibrationState.SUMS:
        np.testing.assert_allclose(getattr(blocked.total(), name), getattr(whole, name), atol=1e-9)


@given(p=some_predictions())
def test_errors_lie_between_0_and_1(p):
    for name in SHARES:
        assert 0 <= CLASSES[name].function(p) <= 1 + 1e-2, name  # Rounded rows sum to 1 or so.


@given(p=some_predictions())
def test_how_the_errors_order(p):
    gap = abs(metrics.accuracy(p) - metrics.mean_confidence(p))
    assert gap <= metrics.ece(p) + 1e-9
    assert metrics.ece(p) <= metrics.mce(p) + 1e-9
    assert gap <= metrics.adaptive_ece(p) + 1e-9
    assert gap <= metrics.ks_error(p) + 1e-9
    assert gap == pytest.approx(metrics.ece(p, 1))
    assert metrics.overconfidence_error(p) <= metrics.ece(p) + 1e-9


@given(p=some_predictions())
def test_areas_agree_with_each_other(p):
    accuracy, auroc = metrics.accuracy(p), metrics.auroc(p)
    if not math.isnan(auroc):
        wrong = 1 - accuracy
        expected = (1 - auroc) * accuracy * wrong + wrong**2 / 2
        assert metrics.augrc(p) == pytest.approx(expected)
    curve = metrics.risk_coverage_curve(p)
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - accuracy)
    assert (np.diff(curve.threshold) < 0).all()


@given(p=some_predictions(), temperature=st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_temperature_keeps_accuracy(p, temperature):
    if p.kind == "logits":
        scaled = Predictions.from_logits(p.scores.astype("f8") / temperature, p.labels)
        assert metrics.accuracy(scaled) == metrics.accuracy(p)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 50))
def test_equal_mass_bins_keep_order_and_share_evenly(count, bins):
    where = equal_mass_bin(np.array(count), bins)
    assert (np.diff(where) >= 0).all()
    assert where[0] >= 0
    assert where[-1] < bins
    alone = equal_mass_bin(np.ones(len(count), int), bins)
    assert np.ptp(np.bincount(alone, minlength=bins)) <= 1


@given(p=some_predictions(), bins=st.integers(1, 40), closed=st.sampled_from(["left", "right"]))
def test_left_and_right_closed_differ_at_edges_only(p, bins, closed):
    values = np.asarray(confidences(p).confidence)
    inner = values[~np.isin(values, Bins(bins).edges())]
    left, right = Bins(bins, "left").index(inner), Bins(bins).index(inner)
    assert left.tolist() == right.tolist()


@given(p=some_predictions())
def test_duplicating_all_examples_changes_nothing(p):
    twice = confidences(p) + confidences(p)
    for name in ("ks_error", "aurc", "augrc", "auroc", "adaptive_ece", "smooth_ece"):
        metric = getattr(metrics, name)
        assert close(metric(twice), metric(p))


def test_sum_of_no_confidences():
    assert len(Confidences.concatenate([])) == 0
    assert functools.reduce(lambda a, b: a + b, [Confidences(np.zeros(1), np.ones(1, bool))] * 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("classes", [3, 17, 33, 100])
def test_ties_of_coarse_logits_do_not_hang_on_rounding(monkeypatch, classes, dtype):
    """The softmax of the same logits in another order, or by another kernel, differs in its bits.

    Whole logits make many such ties: taken for different confidences they moved AUROC by 0.007.
    """
    pytest.importorskip("numba")
    generator = np.random.default_rng(classes)
    logits = (2 * generator.normal(size=(500, classes))).round().astype(dtype)
    rows, order = np.arange(500), generator.permutation(classes)
    logits[rows, generator.integers(0, classes, 500)] = logits.max(axis=1) + 1
    labels = generator.integers(0, classes, 500)
    given = Predictions.from_logits(logits, labels)
    permuted = Predictions.from_logits(logits[:, order], np.argsort(order)[labels])
    for name in ("adaptive_ece", "adaptive_classwise_ece", "ks_error", "aurc", "augrc", "auroc"):
        found = []
        for kernels in ("numpy", "numba"):
            monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
            found += [getattr(metrics, name)(p) for p in (given, permuted)]
        assert np.ptp(found) < 1e-12, name


@pytest.mark.filterwarnings("error")
def test_a_class_ruled_out_by_the_lowest_float_warns_of_nothing(monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    p = Predictions.from_logits(np.array([[1.7e308, -1.7e308, 0.0], [0.0, 1.0, 2.0]]), [0, 1])
    for name in ("ece", "nll", "brier", "classwise_ece", "adaptive_classwise_ece"):
        assert np.isfinite(getattr(metrics, name)(p)), name
