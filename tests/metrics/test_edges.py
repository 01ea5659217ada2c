"""Every metric at the edges: nothing, one example, certainty, ties, absent classes, small types."""

import math
from inspect import signature

import metric_loops as loops
import numpy as np
import pytest
import torch

from calibrant import Claims, Predictions, audit, metrics
from calibrant.errors import InputError
from calibrant.metrics import Bins, CalibrationState, Confidences, accumulate

METRICS = {m.name: m.function for m in metrics.METRICS.values() if m.kind == "classes"}
EVERY = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
CALIBRATION = ["ece", "mce", "adaptive_ece", "ks_error", "smooth_ece", "classwise_ece"]


@EVERY
def test_without_examples_there_is_no_number(metric):
    nothing = Predictions.from_logits(np.empty((0, 3)), np.empty(0, int))
    assert math.isnan(metric(nothing))
    ignored = Predictions.from_logits(np.zeros((2, 3)), [-100, -100])
    assert math.isnan(metric(ignored))


@pytest.mark.parametrize("name", ["ece", "mce", "nll", "brier", "accuracy", "classwise_ece"])
def test_an_empty_state_has_no_number(name):
    assert math.isnan(METRICS[name](CalibrationState.empty(3)))


@EVERY
def test_one_example(metric):
    value = metric(Predictions.from_probabilities([[0.7, 0.2, 0.1]], [1]))
    undefined = metric is METRICS["auroc"]  # No pair of a right and a wrong one.
    assert math.isnan(value) == undefined


@pytest.mark.parametrize("name", CALIBRATION)
def test_one_example_has_the_gap_that_it_has(name):
    p = Predictions.from_probabilities([[0.7, 0.3]], [0])
    assert METRICS[name](p) == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", CALIBRATION)
def test_sure_and_right_is_calibrated(name, dtype):
    p = Predictions.from_probabilities(np.eye(3, dtype=dtype)[[0, 1, 1]], [0, 1, 1])
    assert METRICS[name](p) == 0


@pytest.mark.parametrize("name", ["ece", "mce", "adaptive_ece", "ks_error", "smooth_ece"])
def test_sure_and_wrong_is_the_worst(name):
    p = Predictions.from_probabilities(np.eye(3)[[0, 1, 1]], [1, 0, 0])
    assert METRICS[name](p) == pytest.approx(1, abs=1e-6)


def test_sure_and_wrong_is_infinitely_unlikely():
    assert METRICS["nll"](Predictions.from_probabilities([[1.0, 0.0]], [1])) == math.inf
    # From logits it is not: log-softmax never passes through p = 0.
    assert METRICS["nll"](Predictions.from_logits([[2000.0, 0.0]], [1])) == 2000


@EVERY
@pytest.mark.parametrize("kind", ["ties", "saturated", "logits64"])
def test_the_order_of_examples_does_not_matter(metric, kind):
    p = loops.sample(kind)
    order = np.random.default_rng(1).permutation(len(p))
    assert metric(p[order]) == pytest.approx(metric(p), rel=1e-12, abs=1e-12)


@EVERY
def test_all_confidences_equal(metric):
    p = Predictions.from_probabilities([[0.75, 0.25]] * 8, [0] * 6 + [1] * 2)
    name = next(n for n, m in METRICS.items() if m is metric)
    expected = {"auroc": 0.5, "accuracy": 0.75, "mean_confidence": 0.75, "aurc": 0.25}
    expected |= {"error_rate": 0.25, "brier": 0.375, "augrc": 0.125, "risk_at_coverage": 0.25}
    expected |= dict.fromkeys([*CALIBRATION, "adaptive_classwise_ece"], 0)
    expected |= {"overconfidence_error": 0, "debiased_rms_ece": 0, "coverage_at_risk": 0}
    if name in expected:
        assert metric(p) == pytest.approx(expected[name], abs=1e-12)
    else:
        assert math.isfinite(metric(p))


@EVERY
def test_a_class_that_never_occurs(metric):
    p = loops.sample("logits64")
    scores = np.concatenate([p.scores, np.full((len(p), 1), -1e4)], axis=1)
    wider = Predictions.from_logits(scores, p.labels)
    value, name = metric(p), next(n for n, m in METRICS.items() if m is metric)
    if name in ("classwise_ece", "adaptive_classwise_ece"):
        value *= p.classes / (p.classes + 1)  # The fifth class is right about itself.
    assert metric(wider) == pytest.approx(value, rel=1e-12)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_tensors_give_the_same(metric, dtype):
    logits = torch.tensor(loops.sample("logits64").scores).to(dtype)
    labels = torch.tensor(loops.sample("logits64").labels)
    arrays = Predictions.from_logits(logits.double().numpy(), labels.numpy())
    value = metric(Predictions.from_logits(logits, labels))
    assert value == pytest.approx(metric(arrays), rel=1e-5, abs=1e-6)


@EVERY
def test_half_precision_logits_are_widened_first(metric):
    p = loops.sample("saturated")
    half = p.scores.clip(-1e4, 1e4).astype(np.float16)
    value = metric(Predictions.from_logits(half, p.labels))
    wide = Predictions.from_logits(half.astype(np.float64), p.labels)
    assert value == pytest.approx(metric(wide), rel=1e-5, abs=1e-6)


def test_half_precision_probabilities_lie_on_the_edges_that_they_mean():
    """0.2 in float16 is 0.19995, yet whoever wrote it meant the edge between two bins."""
    values = np.array([0.2, 0.4, 0.6, 0.8, 1.0, 0.0])
    for dtype in ("f2", "f4", "f8"):
        assert Bins(5).index(values.astype(dtype)).tolist() == [0, 1, 2, 3, 4, 0]
        left = Bins(5, closed="left").index(values.astype(dtype))
        assert left.tolist() == [1, 2, 3, 4, 4, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_way_to_the_bins_rounds_the_edges_to_the_type_of_the_scores(dtype):
    """A .6 lies on the edge 9/15 and .65 does not: in one bin their errors would cancel out."""
    scores = np.repeat(np.array([0.6, 0.65], dtype), 100)
    labels = np.r_[np.arange(100) < 30, np.arange(100) < 95].astype(int)
    site = {"site": np.repeat("A", 200)}
    p = Predictions.from_probabilities(scores, labels, label_names=["O", "B-X"], groups=site)
    claims = Claims.from_top_label(None, scores, correct=labels, groups=site)
    of_all, of_claims = (audit(each, per="site", bootstrap=0) for each in (p, claims))
    found = [metrics.ece(p), metrics.ece(claims), metrics.entity_ece(p)]
    found += [metrics.ece(metrics.confidences(each)) for each in (p, claims)]
    found += [metrics.ece(Confidences.from_json(metrics.confidences(p).to_json()))]
    found += [metrics.ece(sum(metrics.confidences(part) for part in (p[:90], p[90:])))]
    found += [of_all["positive_ece"].value, metrics.measure(p, ["binary"])["positive_ece"]]
    found += [row.ece for each in (of_all, of_claims) for t in each.per for row in t.rows]
    assert found == pytest.approx([0.3] * 12, abs=1e-3)


def test_scores_of_the_positive_class_are_no_ties_where_float32_would_round_them_to_one():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    logits = (25 * (rng.normal(size=500) + 2 * labels - 1)).astype(np.float32)
    wide, narrow = (Predictions.from_logits(logits.astype(t), labels) for t in "df")
    values = [metrics.measure(p, ["binary"])["positive_auroc"] for p in (wide, narrow)]
    assert values[0] == values[1] > 0.8


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 3, 10, 15, 1000])
def test_bins_agree_with_a_binary_search_at_and_around_every_edge(count, dtype, closed):
    bins = Bins(count, closed)
    edges = bins.edges(dtype)
    up, down = np.nextafter(edges, edges.dtype.type(2)), np.nextafter(edges, edges.dtype.type(-1))
    values = np.concatenate([edges, up, down])
    side = "left" if closed == "right" else "right"
    expected = np.clip(np.searchsorted(edges, values, side=side) - 1, 0, count - 1)
    assert bins.index(values).tolist() == expected.tolist()


WITH_BINS = [n for n, function in METRICS.items() if "bins" in signature(function).parameters]


@pytest.mark.parametrize("bins", [1, 2, 10**5])
@pytest.mark.parametrize("name", WITH_BINS)
def test_few_and_many_bins(name, bins):
    value = METRICS[name](loops.sample("logits64", n=30), bins=bins)
    assert 0 <= value <= 1


def test_states_with_other_bins_do_not_add():
    p = loops.sample("two")
    with pytest.raises(InputError, match="different bins"):
        accumulate(p, 5) + accumulate(p, 6)
    with pytest.raises(InputError, match="different bins"):
        accumulate(p, 5) + accumulate(p, 5, closed="left")
    with pytest.raises(InputError, match="different classes"):
        accumulate(p, 5) + accumulate(loops.sample("ties"), 5)


def test_confidences_must_fit_together():
    with pytest.raises(InputError, match="shape"):
        Confidences(np.zeros(2), np.zeros(3, bool))
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="finite"):
            Confidences(np.array([0.5, value]), np.zeros(2, bool))
    with pytest.raises(InputError, match="one block per example"):
        Confidences(np.zeros(2), np.zeros(2, bool), np.zeros(3, int))


@pytest.mark.parametrize("odd", [[], [-0.0005], [2.0, 1e300]], ids=["usual", "below 0", "above"])
def test_steps_are_exact_down_to_rounding(odd):
    values = [0.0, -0.0, 5e-324, 1e-310, 0.5, 0.5 + 2**-46, 1 - 2**-45, 1.0, 1.0005, *odd]
    generator = np.random.default_rng(0)
    drawn, correct = generator.choice(values, 500), generator.random(500) < 0.6
    found = metrics.confidence_steps(Confidences(drawn, correct))
    expected = sorted(set(drawn.tolist()))
    assert found.confidence.tolist() == expected
    assert found.count.tolist() == [int((drawn == v).sum()) for v in expected]
    assert found.correct.tolist() == [int(correct[drawn == v].sum()) for v in expected]


def test_many_confidences_near_one_are_no_single_tie():
    """Each differs from the next by rounding, the last from the first by a hundred times that."""
    near = 1 - 2.0**-48 * np.arange(201)
    state = Confidences(near, near > 1 - 2.0**-41)
    assert metrics.confidence_steps(state).count.tolist() == [3] * 67
    assert metrics.auroc(state) == pytest.approx(1, abs=2e-4)


def test_confidences_that_differ_by_rounding_are_one_step():
    near = [0.5, np.nextafter(0.5, 1), 1 - 2**-53, 1.0]
    found = metrics.confidence_steps(
        Confidences(np.array(near), np.array([True, False, True, True]))
    )
    assert found.count.tolist() == [2, 2]
    assert found.correct.tolist() == [1, 2]


def test_more_bins_than_memory_are_refused():
    """A thousand million bins took all memory, and the process with it."""
    with pytest.raises(InputError, match="Bins expects at most 1,000,000 bins"):
        Bins(1_000_000_001)
