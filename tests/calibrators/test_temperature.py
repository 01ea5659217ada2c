"""Temperature scaling: exact optimum, few passes, never diverging."""

import math

import numpy as np
import pytest
from calibrator_samples import as_probabilities, gradient, overconfident, quiet_fit
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.calibrators import CalibrationWarning, ClassTemperature, Temperature
from calibrant.calibrators.moments import Sweep, sums_in_numpy
from calibrant.calibrators.newton import best_inverse_temperature
from calibrant.metrics import accuracy, nll


def loop_nll(logits, labels, temperature):
    """Mean NLL, one number after the other."""
    total = 0.0
    for row, label in zip(np.asarray(logits, float).tolist(), labels.tolist(), strict=True):
        scaled = [v / temperature for v in row]
        top = max(scaled)
        total += top + math.log(sum(math.exp(v - top) for v in scaled)) - scaled[label]
    return total / len(labels)


def test_by_hand():
    # Three of four right with a logit gap of 2: softmax(2/T) = 3/4, so T = 2 / log 3.
    p = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    assert Temperature().fit(p).temperature_ == pytest.approx(2 / math.log(3), rel=1e-12)


def test_grid_search_finds_nothing_better():
    p = overconfident(n=60, classes=4)
    best = Temperature().fit(p)
    lowest = min(loop_nll(p.scores, p.labels, t) for t in np.geomspace(0.1, 30, 3000))
    found = loop_nll(p.scores, p.labels, best.temperature_)
    assert found <= lowest + 1e-12
    assert best.fitted_on_["nll_after"] == pytest.approx(found, abs=1e-12)
    assert best.fitted_on_["nll_before"] == pytest.approx(
        loop_nll(p.scores, p.labels, 1), abs=1e-12
    )


@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradient_vanishes_and_truth_is_found(classes, dtype):
    p = overconfident(n=3000, classes=classes, scale=2.0, dtype=dtype)
    fitted = Temperature().fit(p)
    assert abs(gradient(p.scores, p.labels, fitted.temperature_)) < 1e-8
    assert fitted.temperature_ == pytest.approx(2.0, rel=0.1)


def test_few_passes_over_large_data():
    p = overconfident(n=100_000, classes=3, scale=2.5)
    fitted = Temperature().fit(p)
    assert fitted.fitted_on_["passes"] <= 3
    assert abs(gradient(p.scores, p.labels, fitted.temperature_)) < 1e-8


def test_same_for_logits_log_probabilities_and_probabilities():
    p = overconfident(n=400)
    shifted = p.with_scores(p.scores + 7.0, "logits")
    logs = p.with_scores(np.log(p.probabilities()), "logits")
    expected = Temperature().fit(p).temperature_
    for other in (shifted, logs, as_probabilities(p)):
        assert Temperature().fit(other).temperature_ == pytest.approx(expected, rel=1e-9)


logit_rows = st.integers(2, 5).flatmap(
    lambda k: st.lists(
        st.tuples(
            st.lists(
                st.floats(-1e4, 1e4, allow_subnormal=False) | st.integers(-3, 3).map(float),
                min_size=k,
                max_size=k,
            ),
            st.integers(0, k - 1),
        ),
        min_size=1,
        max_size=12,
    )
)


@given(logit_rows)
def test_every_input_gets_a_finite_stationary_temperature(rows):
    logits = np.array([row for row, _ in rows])
    labels = np.array([label for _, label in rows])
    p = Predictions.from_logits(logits, labels)
    fitted = quiet_fit(Temperature(), p)
    t = fitted.temperature_
    assert 0 < t < math.inf
    assert not fitted.fell_back_
    # Rounding of a sum of terms of this size is all that may remain beyond 1e-8.
    rounding = 1e-15 * np.ptp(logits, axis=1).max() / t
    capped = t >= 999 * np.ptp(logits, axis=1).max()  # The scores say nothing, or the opposite.
    assert abs(gradient(logits, labels, t)) < (1e-3 if capped else 1e-8 + rounding)
    assert fitted.fitted_on_["nll_after"] <= fitted.fitted_on_["nll_before"] + 1e-12
    assert (fitted.transform(p).scores.argmax(axis=1) == logits.argmax(axis=1)).all()


@given(st.integers(0, 2**31), st.floats(1e-3, 1e3))
def test_scaling_the_logits_scales_the_temperature(seed, factor):
    p = overconfident(n=50, classes=3, seed=seed)
    scaled = p.with_scores(p.scores * factor, "logits")
    expected = quiet_fit(Temperature(), p).temperature_ * factor
    assert quiet_fit(Temperature(), scaled).temperature_ == pytest.approx(expected, rel=1e-6)


def test_accuracy_stays_and_nll_falls():
    p = overconfident(n=700)
    q = Temperature().fit(p).transform(p)
    assert accuracy(q) == accuracy(p)
    assert nll(q) < nll(p)
    assert q.kind == "logits"


def test_derivatives_agree_with_differences():
    p = overconfident(n=40, classes=4)
    sweep, step = Sweep(p.scores, p.labels), 1e-4
    low, here, high = (sweep(0.3 + d) for d in (-step, 0.0, step))
    assert here.first == pytest.approx((high.nll - low.nll) / (2 * step), rel=1e-5)
    assert here.second == pytest.approx((high.first - low.first) / (2 * step), rel=1e-5)
    assert here.third == pytest.approx((high.second - low.second) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 7, 100])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_compiled_sweep_equals_numpy(classes, dtype):
    compiled = pytest.importorskip("calibrant.calibrators.moments_compiled")
    p = overconfident(n=1003, classes=classes, dtype=dtype)
    for beta in (1e-6, 0.3, 1.0, 40.0):
        for also_at_one in (True, False):
            ours = compiled.sums_compiled(p.scores, p.labels, beta, also_at_one)
            plain = sums_in_numpy(p.scores, p.labels, beta, also_at_one)
            kept = [0, 1, 2, 4, 5, 6] if also_at_one else [0, 1, 2, 5, 6]
            np.testing.assert_allclose(ours[kept], plain[kept], rtol=1e-11, atol=1e-10)
            np.testing.assert_allclose(ours[3], plain[3], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("beta", [1e-3, 1e6])
def test_compiled_sweep_of_a_vocabulary(beta):
    # Products of sums of so many terms overflow unless their logarithm is taken in time.
    compiled = pytest.importorskip("calibrant.calibrators.moments_compiled")
    logits = 1e-3 * np.random.default_rng(0).normal(size=(80, 30_000))
    labels = np.arange(80)
    ours = compiled.sums_compiled(logits, labels, beta, True)
    plain = sums_in_numpy(logits, labels, beta, True)
    np.testing.assert_allclose(ours, plain, rtol=1e-9, atol=1e-6)


def test_compiled_exponential():
    compiled = pytest.importorskip("calibrant.calibrators.moments_compiled")
    x = -np.concatenate([np.linspace(0, 708, 5001), np.geomspace(1e-300, 1, 500), [709, 1e9]])
    ours = np.array([compiled.exp_nonpositive(v) for v in x])
    np.testing.assert_allclose(ours[:-2], np.exp(x[:-2]), rtol=6e-16)
    assert (ours[-2:] < 1e-300).all()


def test_compiled_and_plain_fits_are_equal(monkeypatch):
    pytest.importorskip("numba")
    p = overconfident(n=5000, classes=4, dtype=np.float32)
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    plain = best_inverse_temperature(p.scores, p.labels).beta
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    assert best_inverse_temperature(p.scores, p.labels).beta == pytest.approx(plain, rel=1e-10)


def test_all_right_stops_at_the_rule_of_succession():
    """Eight right answers in a row support 9 / 10: 1 / (1 + exp(−1 / T)) = 0.9, T = 1 / log 9."""
    p = Predictions.from_logits([[1.0, 0.0]] * 8, [0] * 8)
    with pytest.warns(CalibrationWarning, match="every prediction is right"):
        fitted = Temperature().fit(p)
    assert fitted.temperature_ == pytest.approx(1 / np.log(9), rel=1e-5)
    assert fitted.fitted_on_["nll_after"] == pytest.approx(-np.log(0.9), rel=1e-5)
    assert "support a mean confidence of 0.9." in fitted.fitted_on_["warnings"][0]


@pytest.mark.parametrize(
    "logits", [[[3.0, 0.0], [0.0, 1.0]], [[90.0, 0.0]] * 5, [[0.0, 0.0, -1.0]] * 9], ids=str
)
def test_all_right_and_surer_than_that_stays(logits):
    """(0.95 + 0.73) / 2 > 3 / 4; certain already; ties cannot become surer than a half."""
    p = Predictions.from_logits(logits, np.argmax(logits, axis=1))
    with pytest.warns(CalibrationWarning, match="every prediction is right"):
        fitted = Temperature().fit(p)
    before, after = (q.probabilities().max(axis=1) for q in (p, fitted.transform(p)))
    assert after == pytest.approx(before) or after.max() == pytest.approx(0.5)


def test_all_wrong_is_bounded_and_warns():
    p = Predictions.from_logits([[3.0, 0.0], [0.0, 1.0]], [1, 0])
    with pytest.warns(CalibrationWarning, match="say nothing about the labels, or the opposite"):
        fitted = Temperature().fit(p)
    assert fitted.temperature_ == pytest.approx(3000)
    # Equal to three digits, and the predicted classes are kept.
    assert fitted.transform(p).probabilities() == pytest.approx(0.5, abs=1e-3)
    assert fitted.transform(p).scores.argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("calibrator", [Temperature, ClassTemperature])
@pytest.mark.parametrize(("confidence", "right"), [(0.3, 9), (0.8, 2)])
def test_one_confidence_that_belongs_on_the_other_side_of_a_half(calibrator, confidence, right):
    p = Predictions.from_top_label(["a"] * 10, [confidence] * 10, correct=np.arange(10) < right)
    with pytest.warns(CalibrationWarning, match=r"side of 0\.5 .* Use platt, beta or quadratic"):
        calibrator().fit(p)


def test_constant_logits():
    p = Predictions.from_logits(np.full((4, 3), 2.0), [0, 1, 2, 0])
    with pytest.warns(CalibrationWarning, match="every temperature is as good"):
        assert Temperature().fit(p).temperature_ == 1


def test_label_with_probability_zero_warns():
    rows = [[1.0, 0.0]] + [[0.9, 0.1]] * 200
    p = Predictions.from_probabilities(rows, [1] + [0] * 200)
    with pytest.warns(CalibrationWarning, match=r"1 example\(s\) give their own label prob"):
        fitted = Temperature().fit(p)
    assert fitted.floor_ == pytest.approx(0.05)
    assert 0.1 < fitted.temperature_ < 1
    assert np.isfinite(fitted.fitted_on_["nll_before"])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_temperature_is_capped_where_all_predictions_are_wrong(scale):
    logits = scale * np.random.default_rng(0).normal(size=(200, 3))
    p = Predictions.from_logits(logits, logits.argmin(axis=1))
    with pytest.warns(CalibrationWarning, match="the NLL falls as T grows; stopped at"):
        fitted = Temperature().fit(p)
    assert fitted.temperature_ <= max(1.0, 1001 * np.ptp(logits, axis=1).max())
    assert fitted.fitted_on_["nll_after"] <= fitted.fitted_on_["nll_before"]
    assert (fitted.transform(p).scores.argmax(axis=1) == logits.argmax(axis=1)).all()


def test_ties_do_not_hide_a_faultless_sample():
    """Twenty ties and sixteen right answers: no temperature helps a tie, so 16 decide."""
    logits = np.array([[0.0, 0.0]] * 20 + [[0.0, 1.0]] * 16)
    p = Predictions.from_logits(logits, [0, 1] * 10 + [1] * 16)
    with pytest.warns(CalibrationWarning, match=r"16 right predictions support .* 0\.9444"):
        fitted = Temperature().fit(p)
    assert fitted.transform(p).probabilities()[-1, 1] == pytest.approx(17 / 18, abs=1e-5)
    only_ties = Predictions.from_logits([[0.0, 0.0, -1.0]] * 8, [0, 1] * 4)
    with pytest.warns(CalibrationWarning):
        assert Temperature().fit(only_ties).temperature_ == 1
