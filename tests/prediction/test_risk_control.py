"""The threshold with a guarantee: exact tails, the stated sequence, and the promise itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.comparison.risk_control import (
    STARTS,
    THRESHOLDS,
    binomial_tail,
    clopper_pearson_upper,
    guaranteed_threshold,
)
from calibrant.errors import InputError

counts = st.tuples(st.integers(0, 400), st.integers(0, 400)).map(sorted)
shares = st.floats(1e-4, 1 - 1e-4)


@given(counts, shares)
def test_the_tail_is_that_of_scipy(counts, risk):
    stats = pytest.importorskip("scipy.stats")
    wrong, n = counts
    assert binomial_tail(wrong, n, risk) == pytest.approx(
        stats.binom.cdf(wrong, n, risk), rel=1e-8, abs=1e-300
    )


@given(counts, st.floats(0.5, 0.999))
def test_the_upper_bound_is_that_of_scipy(counts, level):
    stats = pytest.importorskip("scipy.stats")
    wrong, n = counts
    expected = 1.0 if wrong >= n else stats.beta.ppf(level, wrong + 1, n - wrong)
    assert clopper_pearson_upper(wrong, n, level) == pytest.approx(expected, abs=1e-9)


def test_by_hand():
    """45 right ones and none wrong: (1 − 0.05)^45 = 0.0994 < 0.1, but not with eleven starts."""
    assert binomial_tail(0, 45, 0.05) == pytest.approx(0.95**45)
    few = guaranteed_threshold(np.full(45, 0.99), np.ones(45, bool), 0.05)
    assert few.threshold == math.inf
    assert "nothing is accepted" in str(few)
    # 0.95^n ≤ 0.1/11 from n = 92 on.
    assert guaranteed_threshold(np.full(91, 0.99), np.ones(91, bool), 0.05).threshold == math.inf
    enough = guaranteed_threshold(np.full(92, 0.99), np.ones(92, bool), 0.05)
    assert enough.threshold == 0.0
    assert enough.accepted == 92
    assert "at most 5%" in str(enough)


def plainly(confidence, correct, target, level):
    """The loosest threshold by loops."""
    best = math.inf
    for start in STARTS:
        for threshold in THRESHOLDS[start:]:
            accepted = [ok for c, ok in zip(confidence, correct, strict=True) if c >= threshold]
            wrong = len(accepted) - sum(accepted)
            if clopper_pearson_upper(wrong, len(accepted), 1 - (1 - level) / len(STARTS)) > target:
                break
            best = min(best, float(threshold))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_plain_loop(seed):
    random = np.random.default_rng(seed)
    confidence = np.round(random.beta(6, 1, 200), 2)
    correct = random.random(200) < confidence
    for target in (0.1, 0.3):
        found = guaranteed_threshold(confidence, correct, target)
        assert found.threshold == plainly(confidence, correct, target, 0.9)
        kept = confidence >= found.threshold
        assert found.accepted == kept.sum()
        assert found.wrong == (~correct[kept]).sum()


def test_the_promise_is_kept():
    """Right with probability c², c uniform: the risk from t on is 1 − (1 + t + t²)/3."""
    random = np.random.default_rng(0)
    target, broken, accepted = 0.2, 0, []
    for _ in range(200):
        confidence = random.random(2000)
        correct = random.random(2000) < confidence**2
        threshold = guaranteed_threshold(confidence, correct, target, 0.9).threshold
        broken += threshold <= 1 and 1 - (1 + threshold + threshold**2) / 3 > target
        accepted.append((confidence >= threshold).mean())
    assert broken / 200 <= 0.1
    assert np.mean(accepted) > 0.1  # 0.215 for the threshold whose risk is the target.


def test_thresholds_fall_to_zero():
    assert (np.diff(THRESHOLDS) < 0).all()
    assert THRESHOLDS[0] == pytest.approx(0.9999)
    assert THRESHOLDS[-1] == 0
    assert STARTS[-1] == len(THRESHOLDS) - 1


def test_no_entities_and_bad_input():
    assert guaranteed_threshold(np.empty(0), np.empty(0, bool), 0.05).threshold == math.inf
    with pytest.raises(InputError, match="in \\(0, 1\\)"):
        guaranteed_threshold(np.ones(3), np.ones(3, bool), 1.5)
    with pytest.raises(InputError, match="for each entity"):
        guaranteed_threshold(np.ones(3), np.ones(2, bool), 0.1)
