"""The numbers that the diagrams draw, without matplotlib."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from calibrant import InputError, Predictions
from calibrant.charts.curve import (
    class_curve,
    reliability_curve,
    thinned_curve,
    wilson_interval,
    worst_classes,
)
from calibrant.metrics import CalibrationState, Confidences, accumulate, classwise_ece
from calibrant.metrics.selective import risk_coverage_curve


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_interval_equals_scipy(trials, share, level):
    successes = round(share * trials)
    low, high = wilson_interval(np.array([successes]), np.array([trials]), level)
    expected = binomtest(successes, trials).proportion_ci(level, method="wilson")
    np.testing.assert_allclose([low[0], high[0]], [expected.low, expected.high], atol=1e-12)
    assert 0 <= low[0] <= successes / trials <= high[0] <= 1


def test_wilson_interval_by_hand():
    # p̂ = 1/2, n = 4, z = 1.96: centre 1/2, half-width z sqrt(1/16 + z²/64) / (1 + z²/4).
    z = 1.959963984540054
    half = z * np.sqrt(1 / 16 + z**2 / 64) / (1 + z**2 / 4)
    low, high = wilson_interval(np.array([2]), np.array([4]))
    np.testing.assert_allclose([low[0], high[0]], [0.5 - half, 0.5 + half], rtol=1e-12)


def test_wilson_interval_without_trials_is_nan_and_bad_levels_are_refused():
    low, high = wilson_interval(np.array([0]), np.array([0]))
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    with pytest.raises(InputError, match="level between 0 and 1, got 95"):
        wilson_interval(np.array([1]), np.array([1]), 95)


def test_curve_by_hand():
    p = Predictions.from_probabilities([[0.9, 0.1], [0.95, 0.05], [0.3, 0.7]], [0, 1, 0])
    curve = reliability_curve(accumulate(p, bins=5))
    np.testing.assert_array_equal(curve.count, [0, 0, 0, 1, 2])
    np.testing.assert_allclose(curve.accuracy, [np.nan, np.nan, np.nan, 0, 0.5])
    np.testing.assert_allclose(curve.confidence, [np.nan, np.nan, np.nan, 0.7, 0.925])
    np.testing.assert_allclose(curve.gap[3:], [0.7, 0.425])
    np.testing.assert_array_equal(curve.filled, [3, 4])
    np.testing.assert_allclose(curve.upper - curve.lower, 0.2)
    first = class_curve(accumulate(p, bins=5), 0)
    np.testing.assert_array_equal(first.count, [0, 1, 0, 0, 2])
    np.testing.assert_allclose(first.accuracy[[1, 4]], [1, 0.5])


def test_worst_classes_are_ranked_by_their_part_of_classwise_ece(overconfident):
    state = accumulate(overconfident)
    worst = worst_classes(state, 99)
    error = [np.abs(class_curve(state, k).gap * class_curve(state, k).count) for k in worst]
    error = [np.nansum(e) / state.n for e in error]
    assert error == sorted(error, reverse=True)
    assert np.mean(error) == pytest.approx(classwise_ece(state))
    np.testing.assert_array_equal(worst_classes(state, 3), worst[:3])


def test_a_class_never_met_is_not_among_the_worst():
    p = Predictions.from_probabilities([[0.6, 0.3, 0.1]], [1])
    assert set(worst_classes(accumulate(p), 9)) == {0, 1}
    assert len(worst_classes(CalibrationState.empty(3), 9)) == 0


def test_states_that_cannot_be_drawn_are_refused(overconfident):
    blocks = np.arange(len(overconfident)) % 2
    many = accumulate(overconfident, block=blocks, blocks=2)
    with pytest.raises(InputError, match=r"add them: state.total\(\)"):
        reliability_curve(many)
    with pytest.raises(InputError, match="classwise=True"):
        class_curve(accumulate(overconfident, classwise=False), 0)


def test_the_risk_coverage_curve_is_thinned_but_keeps_both_ends():
    rng = np.random.default_rng(0)
    state = Confidences(rng.random(100_000), rng.random(100_000) < 0.7)
    whole, thin = risk_coverage_curve(state), thinned_curve(state)
    assert 450 < len(thin.coverage) <= 500
    for name in ("coverage", "risk", "threshold"):
        all_of, some_of = getattr(whole, name), getattr(thin, name)
        assert some_of[0] == all_of[0]
        assert some_of[-1] == all_of[-1]
        assert np.isin(some_of, all_of).all()
    assert np.diff(thin.coverage).max() < 0.003
    few = Confidences([0.9, 0.8, 0.8], [True, False, True])
    np.testing.assert_allclose(thinned_curve(few).coverage, [1 / 3, 1])
    assert len(thinned_curve(Confidences([], [])).risk) == 0
