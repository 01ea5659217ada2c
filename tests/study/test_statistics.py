"""Intervals, paired tests, corrections and ranks: by hand, by plain loops, and against SciPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant import InputError
from calibrant.distributions import (
    fisher_p,
    incomplete_beta,
    range_quantile,
    student_p,
    student_quantile,
)
from calibrant.study.ranks import rank_methods, ranks_of
from calibrant.study.statistics import (
    compare_pairs,
    estimate,
    holm,
    show,
    sign_flip_p,
    smallest_p,
    t_p,
)

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")

values = st.floats(-5, 5).map(lambda x: round(x, 3))


@given(st.floats(0.1, 200), st.floats(0.1, 200), st.floats(0, 1))
@settings(max_examples=200)
def test_incomplete_beta_is_scipys(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 4, 19, 300])
def test_student_is_scipys(freedom):
    for t in (0.0, 0.3, -2.5, 8.0, 50.0):
        assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9)
    for level in (0.5, 0.95, 0.999):
        wanted = stats.t.ppf((1 + level) / 2, freedom)
        assert student_quantile(freedom, level) == pytest.approx(wanted, rel=1e-9)


def test_fisher_and_the_range_are_scipys():
    for f, above, below in ((0.2, 3, 4), (3.5, 4, 16), (90.0, 12, 2)):
        assert fisher_p(f, above, below) == pytest.approx(stats.f.sf(f, above, below), rel=1e-9)
    assert fisher_p(0.0, 3, 4) == 1
    for count in (2, 5, 13):
        wanted = stats.studentized_range.ppf(0.95, count, np.inf)
        assert range_quantile(count) == pytest.approx(wanted, rel=1e-4)


# 97.5 % quantiles over √2 as Demšar (2006) prints them, Table 5(a).
@pytest.mark.parametrize(("count", "printed"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_the_range_is_the_printed_table(count, printed):
    assert range_quantile(count) / math.sqrt(2) == pytest.approx(printed, abs=6e-4)


def test_what_is_out_of_range_is_refused():
    with pytest.raises(InputError, match="at least 2 values"):
        range_quantile(1)
    with pytest.raises(InputError, match="between 0 and 1"):
        student_quantile(3, 1.0)
    with pytest.raises(InputError, match="in \\[0, 1\\]"):
        incomplete_beta(1, 1, 1.5)
    with pytest.raises(InputError, match="got none"):
        estimate([])
    with pytest.raises(InputError, match="at least 2 corpora"):
        rank_methods(np.ones((1, 3)))


@given(st.lists(values, min_size=2, max_size=9))
def test_the_interval_is_scipys(found):
    mean, half, n = estimate(found)
    assert n == len(found)
    if np.ptp(found) == 0:
        assert half == pytest.approx(0, abs=1e-9)
        return
    low, high = stats.t.interval(0.95, n - 1, np.mean(found), stats.sem(found))
    assert (mean - half, mean + half) == pytest.approx((low, high), abs=1e-9)


def test_an_estimate_of_what_is_not_finite():
    assert math.isnan(estimate([1.0]).half)
    assert estimate([1.0, math.inf])[:1] == (math.inf,)
    assert math.isnan(estimate([1.0, math.inf]).half)
    assert estimate([1.0, math.nan]).show(2) == "–"
    assert show(-math.inf, 2) == "−∞"
    assert estimate([1e-9, 1e-9]).show(2, signed=True) == "0.00 ± 0.00"


@given(st.lists(values, min_size=2, max_size=10))
def test_the_paired_t_is_scipys(found):
    if np.ptp(found) < 1e-9:
        assert t_p(found) == sign_flip_p(found)
        return
    assert t_p(found) == pytest.approx(stats.ttest_1samp(found, 0).pvalue, rel=1e-7, abs=1e-12)


def test_the_paired_t_at_its_edges():
    assert t_p([0.0, 0.0]) == 1
    assert math.isnan(t_p([1.0]))
    assert math.isnan(t_p([1.0, math.nan]))


def test_the_same_difference_every_time_is_no_certainty():
    """Two seeds on 180 images are often the same number of images apart."""
    ones, others = np.array([[7, 9], [6, 8]]) / 180
    assert np.std(ones - others) < 1e-16
    found = compare_pairs(list(ones), list(others))
    assert found.t == found.flips == 0.5
    assert math.isnan(found.effect)
    assert t_p([0.1] * 8) == 2 / 2**8  # Eight of them are another matter.


@given(st.lists(values, min_size=1, max_size=7))
def test_sign_flips_by_a_plain_loop(found):
    total, as_much = abs(sum(found)), 0
    for signs in itertools.product((1, -1), repeat=len(found)):
        as_much += abs(sum(s * x for s, x in zip(signs, found, strict=True))) >= total - 1e-9
    assert sign_flip_p(found) == as_much / 2 ** len(found)


def test_sign_flips_are_scipys():
    found = np.random.default_rng(3).normal(0.4, 1, 9)
    wanted = stats.permutation_test(
        (found,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_p(found) == pytest.approx(wanted.pvalue)


def test_many_pairs_are_sampled_and_always_the_same():
    found = np.random.default_rng(1).normal(0.3, 1, 20)
    p = sign_flip_p(found)
    assert p == sign_flip_p(found)
    wanted = stats.permutation_test(
        (found,), np.mean, permutation_type="samples", n_resamples=99_999, rng=2
    )
    assert p == pytest.approx(wanted.pvalue, abs=0.01)
    assert sign_flip_p(np.ones(20)) >= 2.0**-16
    assert math.isnan(sign_flip_p([1.0, math.nan]))


def test_few_pairs_cannot_say_much():
    for n in (1, 3, 5, 6):
        assert sign_flip_p([1.0] * n) == smallest_p(n) == 2 / 2**n


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_by_a_plain_loop(p):
    order = np.argsort(p, kind="stable")
    wanted = np.empty(len(p))
    for place, i in enumerate(order):
        before = [(len(p) - j) * p[order[j]] for j in range(place + 1)]
        wanted[i] = min(1, max(before))
    found = holm(p)
    assert found == pytest.approx(list(wanted))
    assert all(q >= single for q, single in zip(found, p, strict=True))


def test_holm_leaves_out_what_is_none():
    assert holm([0.01, math.nan, 0.03])[0] == 0.02
    assert math.isnan(holm([0.01, math.nan])[1])


def test_comparing_pairs_by_hand():
    found = compare_pairs([0.5, 0.7], [0.4, 0.4])
    assert found.difference.mean == pytest.approx(0.2)
    assert found.effect == pytest.approx(0.2 / math.sqrt(0.02))
    assert found.t == pytest.approx(stats.ttest_rel([0.5, 0.7], [0.4, 0.4]).pvalue)
    assert found.flips == 0.5
    alone = compare_pairs([0.5], [0.4])
    assert math.isnan(alone.t)
    assert math.isnan(alone.effect)
    assert alone.flips == 1


@given(arrays(float, st.integers(1, 8), elements=st.integers(0, 4).map(float)))
def test_ranks_are_scipys(found):
    assert ranks_of(found).tolist() == stats.rankdata(found).tolist()


@given(
    arrays(
        float,
        st.tuples(st.integers(3, 6), st.integers(3, 6)),
        elements=st.integers(0, 9).map(float),
    )
)
def test_friedman_is_scipys(costs):
    n, k = costs.shape
    found = rank_methods(costs)
    assert sum(found.average) == pytest.approx(k * (k + 1) / 2)
    if (costs == costs[:, :1]).all():
        assert found.p == 1
        return
    square = stats.friedmanchisquare(*costs.T).statistic
    if n * (k - 1) - square < 1e-9:
        assert found.p == 0
        return
    f = (n - 1) * square / (n * (k - 1) - square)
    assert found.p == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)), rel=1e-6)


def test_the_critical_difference_by_hand():
    # Demšar (2006), section 3.2.2: 4 methods on 14 corpora, q 2.569, CD 1.25.
    costs = np.random.default_rng(0).normal(size=(14, 4))
    assert rank_methods(costs).critical_difference == pytest.approx(1.25, abs=0.005)
