"""Numbers worked out on paper."""

import math

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.errors import InputError
from calibrant.metrics import (
    Confidences,
    MatchCounts,
    accumulate,
    accuracy,
    adaptive_classwise_ece,
    adaptive_ece,
    apcr,
    augrc,
    aurc,
    auroc,
    bin_confidences,
    brier,
    chance_ece,
    classwise_ece,
    coverage_at_risk,
    debiased_rms_ece,
    e_aurc,
    ece,
    error_rate,
    f1_of_counts,
    ks_error,
    mce,
    mean_confidence,
    nll,
    overconfidence_error,
    risk_at_coverage,
    risk_coverage_curve,
    risk_points,
    smooth_ece,
)

# Confidence 0.9 right, 0.8 right, 0.8 wrong, 0.6 wrong.
FOUR = Predictions.from_probabilities(
    [[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [0, 0, 0, 1]
)


def test_binned_errors_in_five_bins():
    # (0.4, 0.6]: gap 0.6 (1 example); (0.6, 0.8]: acc 1/2, conf 0.8, gap 0.3 (2); (0.8, 1]: 0.1.
    assert ece(FOUR, 5) == pytest.approx((0.6 + 2 * 0.3 + 0.1) / 4)
    assert mce(FOUR, 5) == pytest.approx(0.6)
    assert overconfidence_error(FOUR, 5) == pytest.approx((0.6 * 0.6 + 2 * 0.8 * 0.3) / 4)


def test_debiased():
    # Single-example bins say nothing; in (0.6, 0.8] 0.3² − 0.25 / (2 − 1) < 0.
    assert debiased_rms_ece(FOUR, 5) == 0
    # One bin of 4: acc 1/2, conf 0.775: 0.275² − 0.25 / 3 < 0; of 40: 0.275² − 0.25 / 39.
    forty = Predictions.from_probabilities(np.tile(FOUR.scores, (10, 1)), list(FOUR.labels) * 10)
    assert debiased_rms_ece(FOUR, 1) == 0
    assert debiased_rms_ece(forty, 1) == pytest.approx(math.sqrt(0.275**2 - 0.25 / 39))


def test_classwise():
    p = Predictions.from_probabilities([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    # Class 0: |1 − 0.9| and |1 − 0.4|, class 1: |0 − 0.1| and |0 − 0.6|; all in bins of their own.
    assert classwise_ece(p, 5) == pytest.approx((0.35 + 0.35) / 2)
    # A third class that never occurs, with all its mass right at 0, counts as a class.
    wide = Predictions.from_probabilities([[0.9, 0.1, 0.0], [0.4, 0.6, 0.0]], [0, 0])
    assert classwise_ece(wide, 5) == pytest.approx((0.35 + 0.35 + 0) / 3)


def test_scores():
    assert accuracy(FOUR) == 0.5
    assert error_rate(FOUR) == 0.5
    assert mean_confidence(FOUR) == pytest.approx(0.775)
    assert nll(FOUR) == pytest.approx(-math.log(0.9 * 0.8 * 0.1 * 0.2) / 4)
    rows = [
        0.1**2 + 0.1**2,
        0.2**2 + 2 * 0.1**2,
        0.9**2 + 0.8**2 + 0.1**2,
        0.2**2 + 0.8**2 + 0.6**2,
    ]
    assert brier(FOUR) == pytest.approx(sum(rows) / 4)


def test_the_worst_brier_score_is_two():
    assert brier(Predictions.from_probabilities([[1.0, 0.0]], [1])) == 2


def test_equal_mass():
    # Two bins of two: 0.6 (wrong) with the pair at 0.8, whose middle rank is 2 = the cut: upper.
    assert adaptive_ece(FOUR, 2) == pytest.approx((0.6 + abs(2 - 2.5)) / 4)
    assert adaptive_ece(FOUR, 1) == pytest.approx(abs(2 - 3.1) / 4)
    # The columns of one class each: ranks and residuals by hand.
    p = Predictions.from_probabilities([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1])
    column = (0.2 + 0.6 + 0.1) / 3  # Three bins, one example each, the same in both columns.
    assert adaptive_classwise_ece(p, 3) == pytest.approx(column)


def test_kolmogorov_smirnov():
    # Running sums of (right − confidence) from below: −0.6, then −0.6 − 0.6, then + 0.1.
    assert ks_error(FOUR) == pytest.approx(1.2 / 4)


def test_smooth_ece_of_one_confidence_is_the_gap():
    # All residuals of one sign: smoothing moves mass but loses none.
    c = Confidences(np.full(10, 0.7), np.arange(10) < 4)
    assert smooth_ece(c) == pytest.approx(0.3, abs=1e-6)
    assert smooth_ece(Confidences(np.ones(3), np.ones(3, bool))) == 0


def test_selective():
    curve = risk_coverage_curve(FOUR)
    assert curve.threshold.tolist() == [0.9, 0.8, 0.6]
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0]
    assert curve.risk.tolist() == pytest.approx([0, 1 / 3, 1 / 2])
    assert aurc(FOUR) == pytest.approx((0 + 2 / 3 + 1 / 2) / 4)
    best = (0 + 0 + 1 / 3 + 1 / 2) / 4  # Right, right, wrong, wrong.
    assert e_aurc(FOUR) == pytest.approx(aurc(FOUR) - best)
    # Trapezoids of (0, 0), (1/4, 0), (3/4, 1/4), (1, 1/2).
    assert augrc(FOUR) == pytest.approx(0.5 * 0.125 + 0.25 * 0.375)
    # Pairs of right and wrong: 0.9 beats both, 0.8 ties with one and beats the other.
    assert auroc(FOUR) == pytest.approx(3.5 / 4)
    assert risk_at_coverage(FOUR, 0.5) == pytest.approx(1 / 3)
    assert coverage_at_risk(FOUR, 0.4) == 0.75
    assert coverage_at_risk(Predictions.from_probabilities([0.9], [0]), 0.5) == 0


def test_coverage_that_rounding_made_too_large():
    p = Predictions.from_probabilities(np.linspace(0.99, 0.55, 10), [1, 1, 1] + [0] * 7)
    assert 0.1 * 3 > 0.3
    assert risk_at_coverage(p, 0.1 * 3) == 0


def test_f1():
    counts = MatchCounts(("A", "B"), np.array([2, 0]), np.array([3, 1]), np.array([4, 0]))
    assert f1_of_counts(counts) == pytest.approx(2 * 2 / (4 + 4))
    assert f1_of_counts(counts, by_type=True).tolist() == pytest.approx([4 / 7, 0])


def test_apcr():
    assert apcr(0.8, 0.02) == pytest.approx(32)
    assert math.isnan(apcr(0.0, 0.02))
    assert math.isnan(apcr(0.0, 0.0))
    with pytest.warns(RuntimeWarning, match="infinite"):
        assert apcr(0.8, 0.0) == math.inf
    assert math.isnan(apcr(math.nan, 0.1))
    assert math.isnan(apcr(0.5, math.nan))
    with pytest.warns(RuntimeWarning, match="infinite"):
        many = apcr(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.0, 0.0]))
    assert many.tolist()[:2] == [1, math.inf]
    assert math.isnan(many[2])


def test_chance_ece_of_certainty_is_zero():
    sure = Predictions.from_probabilities([[1.0, 0.0]] * 5, [0] * 5)
    assert chance_ece(accumulate(sure)) == (0, 0)


@pytest.mark.parametrize("bins", [0, -1, 2.5, True])
def test_bins_are_a_whole_number(bins):
    for metric in (ece, adaptive_ece, adaptive_classwise_ece):
        with pytest.raises(InputError, match="whole number"):
            metric(FOUR, bins)


def test_arguments_out_of_range():
    with pytest.raises(InputError, match="coverage in"):
        risk_at_coverage(FOUR, 0)
    with pytest.raises(InputError, match="risk in"):
        coverage_at_risk(FOUR, 1.5)
    with pytest.raises(InputError, match="Predictions"):
        adaptive_classwise_ece(Confidences(np.array([0.5]), np.array([True])))
    with pytest.raises(InputError, match="classwise=True"):
        classwise_ece(accumulate(FOUR, classwise=False))


def test_a_state_of_confidences():
    """Wrong and right are its two classes; the prediction is always "right"."""
    each = Confidences(np.array([0.9, 0.4, 1.0]), np.array([True, False, True]))
    state = bin_confidences(each, 5)
    assert (int(state.n), int(state.correct), state.classes) == (3, 2, 2)
    assert state.label_count.tolist() == [1, 2]
    assert state.predicted_count.tolist() == [0, 3]
    assert state.predicted_correct.tolist() == [0, 2]
    assert state.predicted_confidence.tolist() == pytest.approx([0, 2.3])
    assert state.top_count.tolist() == [0, 1, 0, 0, 2]
    assert nll(state) == pytest.approx(-math.log(0.9 * 0.6) / 3)
    assert brier(state) == pytest.approx(2 * (0.1**2 + 0.4**2) / 3)
    assert not state.classwise
    sure_and_wrong = Confidences(np.array([1.0]), np.array([False]))
    assert nll(bin_confidences(sure_and_wrong)) == math.inf


def test_a_state_of_confidences_in_cells():
    each = Confidences(np.array([0.9, 0.4, 1.0]), np.array([True, False, True]))
    state = bin_confidences(each, 5, cell=np.array([0, 5, 5]), cells=(2, 3))
    assert state.n.tolist() == [[1, 0, 0], [0, 0, 2]]
    assert ece(state)[1, 2] == pytest.approx(0.2)
    assert math.isnan(ece(state)[0, 1])


def test_risk_points():
    """The right one at 0.9; then a tie of a right and a wrong one at 0.8; then a wrong one."""
    p = FOUR
    none, third, half = risk_points(p, [0.0, 0.34, 0.5])
    assert (none.coverage, none.threshold) == (0.25, 0.9)
    assert (third.coverage, third.threshold) == (0.75, 0.8)
    assert (half.coverage, half.threshold) == (1.0, 0.6)
    for risk in (0.0, 0.34, 0.5):
        assert risk_points(p, [risk])[0].coverage == coverage_at_risk(p, risk)
    wrong = Predictions.from_probabilities([0.9], [0])
    assert risk_points(wrong, [0.5])[0].threshold is None


def test_chance_ece_of_two_blocks_is_no_more_than_all_wrong():
    """Two blocks widen the bootstrap like Student's t with one degree of freedom, up to 5.8."""
    p = Predictions.from_probabilities([[0.95, 0.05], [0.6, 0.4], [0.7, 0.3]], [0, 0, 0])
    state = accumulate(p, block=np.array([0, 0, 1]), blocks=2)
    expected, upper = chance_ece(state)
    assert expected < upper <= 0.75
