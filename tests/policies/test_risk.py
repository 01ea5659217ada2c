"""The threshold with a guarantee: exact tails, bets, the stated sequence, the promise itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.comparison.risk_control import guaranteed_threshold
from calibrant.errors import InputError
from calibrant.policies import Items, Policy, guarantee_items, risk
from calibrant.policies.p_values import betting_p_value, binomial_tail, loosest, upper_bound
from calibrant.policies.risk import THRESHOLDS, find_threshold, row_starts, starts
from calibrant.policies.wording import feasibility
from calibrant.tasks.predictor import Acceptance

counts = st.tuples(st.integers(0, 400), st.integers(0, 400)).map(sorted)
shares = st.floats(1e-4, 1 - 1e-4)


@given(counts, shares)
def test_the_tail_is_that_of_scipy(counts, risk):
    stats = pytest.importorskip("scipy.stats")
    wrong, n = counts
    assert binomial_tail(wrong, n, risk) == pytest.approx(
        stats.binom.cdf(wrong, n, risk), rel=1e-8, abs=1e-300
    )


def test_the_tail_of_a_million():
    stats = pytest.importorskip("scipy.stats")
    for wrong in (48_000, 49_700, 50_400):
        assert binomial_tail(wrong, 1_000_000, 0.05) == pytest.approx(
            stats.binom.cdf(wrong, 1_000_000, 0.05), rel=1e-6
        )


@given(counts, st.floats(0.5, 0.999))
def test_the_upper_bound_is_that_of_clopper_and_pearson(counts, level):
    stats = pytest.importorskip("scipy.stats")
    wrong, n = counts
    expected = 1.0 if wrong >= n else stats.beta.ppf(level, wrong + 1, n - wrong)
    found = upper_bound(lambda r: binomial_tail(wrong, n, r), 1 - level)
    assert found == pytest.approx(expected, abs=1e-9)


def test_starts_share_the_whole_level():
    for target in (0.001, 0.05, 0.25, 0.9):
        shares = starts(target)
        assert sum(shares.values()) == pytest.approx(1)
        assert max(shares, key=shares.get) == np.searchsorted(1 - THRESHOLDS, target - 1e-12)
        assert set(shares) <= set(range(len(THRESHOLDS)))


def test_accepting_all_of_few_rows_gets_what_it_can_use():
    last = len(THRESHOLDS) - 1
    for n, target, level in ((100, 0.1, 0.9), (1000, 0.05, 0.95), (30, 0.9, 0.5), (5, 0.01, 0.9)):
        shares = row_starts(target, n, 1 - level)
        assert sum(shares.values()) == pytest.approx(1)
        tails = [0.0, *(binomial_tail(k, n, target) / (1 - level) for k in range(n))]
        assert min(abs(shares[last] - tail) for tail in tails) < 1e-9
        assert shares[last] <= max(0.25, starts(target)[last])


def test_few_rows_that_need_no_threshold_are_all_accepted():
    """Four of 100 are wrong, at any confidence: P[Binomial(100, 0.1) ≤ 4] = 0.024 suffices."""
    confidence, correct = np.linspace(0.5, 0.9, 100), np.ones(100, bool)
    correct[[20, 40, 97, 99]] = False
    assert find_threshold(confidence, correct, 0.1).threshold == 0.0
    correct[60] = False
    assert find_threshold(confidence, correct, 0.1).threshold != 0.0


def test_thresholds_above_a_floor_have_the_whole_level():
    """Without the loose thresholds, their starts' shares go to those that are left."""
    above = THRESHOLDS[THRESHOLDS >= 0.5]
    shares = {i: share for i, share in starts(0.05).items() if i < len(above)}
    level = 0.1 * shares[len(above) - 1] / sum(shares.values())  # All lie below the other starts.
    least = math.ceil(math.log(level) / math.log(0.95))
    confidence, correct = np.full(least, 0.6), np.ones(least, bool)
    assert find_threshold(confidence, correct, 0.05, thresholds=above).threshold == above[-1]


def test_by_hand():
    """All right, all at one confidence above every start: it passes at the first start or not.

    0.9999999 is the first threshold below which all lie, so all starts' shares up to there count.
    """
    shares = row_starts(0.05, 60, 0.1)  # The same for each of some sixty rows.
    first = min(i for i in shares if THRESHOLDS[i] <= 0.99)
    level = 0.1 * shares[first]
    least = math.ceil(math.log(level) / math.log(0.95))
    few = find_threshold(np.full(least - 1, 0.99), np.ones(least - 1, bool), 0.05)
    enough = find_threshold(np.full(least, 0.99), np.ones(least, bool), 0.05)
    assert enough.threshold == 0.0
    assert (enough.accepted, enough.wrong, enough.kept) == (least, 0, 1.0)
    # One fewer fails there, and passes at the next start if its own share is large enough.
    assert few.threshold in (0.0, math.inf)


def test_the_fallback_procedure_by_hand():
    p = [0.04, 0.06, 0.2, 0.05, 0.11]
    # 0.05 passes 0.04; 0.05 fails 0.06; nothing until start 3 brings 0.05 and passes; 0.11 fails.
    assert loosest(p.__getitem__, {0: 0.5, 3: 0.5}, 5, 0.1) == 3
    # The second start adds to what the first still has: 0.1 passes 0.06.
    assert loosest(p.__getitem__, {0: 0.5, 1: 0.5}, 5, 0.1) == 1
    assert loosest(p.__getitem__, {2: 1.0}, 5, 0.1) is None


def plainly(confidence, correct, target, level):
    """The loosest threshold by loops."""
    best, have, shares = math.inf, 0.0, row_starts(target, len(correct), 1 - level)
    for i, threshold in enumerate(THRESHOLDS):
        have += (1 - level) * shares.get(i, 0)
        accepted = [ok for c, ok in zip(confidence, correct, strict=True) if c >= threshold]
        wrong, n = len(accepted) - sum(accepted), len(accepted)
        tail = sum(
            math.comb(n, k) * target**k * (1 - target) ** (n - k) for k in range(int(wrong) + 1)
        )
        if have and min(tail, 1) <= have:
            best = float(threshold)
        else:
            have = 0.0
    return best


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_plain_loop(seed):
    random = np.random.default_rng(seed)
    confidence = np.round(random.beta(6, 1, 150), 2)
    correct = random.random(150) < confidence
    for target in (0.1, 0.3):
        found = find_threshold(confidence, correct, target)
        assert found.threshold == plainly(confidence, correct, target, 0.9)
        kept = confidence >= found.threshold
        assert found.accepted == kept.sum()
        assert found.wrong == (~correct[kept]).sum()


def wealth_by_loops(accepted, wrong, largest, risk, delta):
    wealth, squares = 1.0, risk * (1 - risk)
    for g in range(len(accepted)):
        z = wrong[g] - risk * accepted[g]
        wager = math.sqrt(2 * math.log(1 / delta) / (len(accepted) * squares / (g + 1)))
        wealth *= 1 - min(wager, 0.99 / ((1 - risk) * largest)) * z
        squares += z * z
    return wealth


def test_bets_are_those_of_the_plain_loop():
    random = np.random.default_rng(0)
    for _ in range(20):
        accepted = random.integers(0, 5, 50)
        wrong = random.binomial(accepted, 0.03)
        expected = min(1, 1 / wealth_by_loops(accepted, wrong, 4, 0.1, 0.1))
        assert betting_p_value(accepted, wrong, 4, 0.1, 0.1) == pytest.approx(expected)


def test_the_expected_wealth_is_one_at_the_target():
    """Enumerate all outcomes of three groups whose risk is the target: E[wealth] ≤ 1 exactly."""
    total = 0.0
    for first in range(2):
        for second in range(2):
            for third in range(2):
                wrong = np.array([2 * first, second, 3 * third])  # Right and wrong together.
                chance = math.prod(0.2 if w else 0.8 for w in (first, second, third))
                total += chance * wealth_by_loops([2, 1, 3], wrong, 3, 0.2, 0.1)
    assert total == pytest.approx(1, abs=1e-12)


def clustered(random, groups, correlation, size=3):
    number = np.repeat(np.arange(groups), size)
    confidence = 0.4 + 0.6 * random.beta(3, 1, len(number))
    luck = math.sqrt(correlation) * random.normal(size=groups)[number]
    luck += math.sqrt(1 - correlation) * random.normal(size=len(number))
    chance = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in luck])
    return confidence, chance < confidence, number


def test_groups():
    random = np.random.default_rng(3)
    confidence, correct, number = clustered(random, 700, 0.7)
    alone = find_threshold(confidence, correct, 0.1)
    found = find_threshold(confidence, correct, 0.1, groups=number)
    assert (found.units, found.largest) == (700, 3)
    assert alone.threshold < found.threshold < 1
    order = random.permutation(len(number))
    again = find_threshold(confidence[order], correct[order], 0.1, groups=number[order])
    assert again == found  # The order of rows does not matter,
    named = np.array([f"s{k:04d}" for k in number])
    assert find_threshold(confidence, correct, 0.1, groups=named) == found  # nor what names are.
    single = find_threshold(confidence, correct, 0.1, groups=np.arange(len(number)))
    assert single == alone  # Groups of one are independent rows.
    merged = find_threshold(confidence, correct, 0.1, groups=number // 100)
    assert merged.accepted <= found.accepted  # Seven groups promise little.


@pytest.mark.parametrize("grouped", [False, True])
def test_a_higher_target_or_a_lower_level_accepts_more(grouped):
    confidence, correct, number = clustered(np.random.default_rng(4), 600, 0.3)
    groups = number if grouped else None
    kept = [
        find_threshold(confidence, correct, t, groups=groups).accepted
        for t in (0.02, 0.08, 0.12, 0.3)
    ]
    assert kept == sorted(kept)
    kept = [
        find_threshold(confidence, correct, 0.12, level, groups=groups).accepted
        for level in (0.99, 0.9, 0.7)
    ]
    assert kept == sorted(kept)


def test_the_promise_is_kept():
    """Right with probability c², c uniform: the risk from t on is 1 − (1 + t + t²)/3."""
    random = np.random.default_rng(0)
    target, broken, accepted = 0.2, 0, []
    for _ in range(200):
        confidence = random.random(2000)
        correct = random.random(2000) < confidence**2
        threshold = find_threshold(confidence, correct, target, 0.9).threshold
        broken += threshold <= 1 and 1 - (1 + threshold + threshold**2) / 3 > target
        accepted.append((confidence >= threshold).mean())
    assert broken / 200 <= 0.1
    assert np.mean(accepted) > 0.15  # 0.215 for the threshold whose risk is the target.


def test_thresholds_fall_to_zero():
    assert (np.diff(THRESHOLDS) < 0).all()
    assert THRESHOLDS[0] == pytest.approx(1 - 1e-7)
    assert THRESHOLDS[-1] == 0
    assert (-np.diff(THRESHOLDS)).max() <= 0.005 + 1e-12


def test_what_must_be_refused():
    assert risk.least_refused(0.24, 0.05) == pytest.approx(0.2)
    # Refusing just these, all wrong, leaves the target: (0.24 − 0.2) / 0.8 = 0.05.
    assert risk.least_refused(0.05, 0.05) == 0


def test_a_promise_that_fails_names_the_largest_group():
    sentence = np.concatenate([np.zeros(30, int), np.arange(1, 100)])  # One has 30 entities.
    found = guaranteed_threshold(np.full(129, 0.99), np.ones(129, bool), 0.05, groups=sentence)
    assert found.threshold == math.inf
    assert found.largest == 30
    assert "even if all 30 entities of the largest validation sentence" in str(found)
    alone = guaranteed_threshold(np.full(5, 0.99), np.ones(5, bool), 0.05)
    assert alone.threshold == math.inf
    assert "largest" not in str(alone)


def test_no_entities_and_bad_input():
    found = guaranteed_threshold(np.empty(0), np.empty(0, bool), 0.05)
    assert found.threshold == math.inf
    assert "nothing is accepted" in str(found)
    with pytest.raises(InputError, match="in \\(0, 1\\)"):
        guaranteed_threshold(np.ones(3), np.ones(3, bool), 1.5)
    with pytest.raises(InputError, match="for each item"):
        guaranteed_threshold(np.ones(3), np.ones(2, bool), 0.1)
    with pytest.raises(InputError, match="finite"):
        find_threshold(np.array([0.5, math.nan]), np.ones(2, bool), 0.1)


def unequal(random, groups, correlation=0.7):
    """Groups of 1 to 40 rows that are right and wrong together, large ones more often wrong."""
    sizes = np.minimum(random.geometric(0.2, groups), 40)
    number = np.repeat(np.arange(groups), sizes)
    confidence = random.uniform(0.8, 1, len(number))
    chance = confidence - 0.1 * (sizes[number] > 8)
    shared = random.random(len(number)) < math.sqrt(correlation)
    luck = np.where(shared, random.random(groups)[number], random.random(len(number)))
    return confidence, luck < chance, number


def mean_share(confidence, correct, number, threshold):
    """The wrong share of each group's accepted rows, averaged over groups that have some."""
    shares = {}
    for c, ok, g in zip(confidence, correct, number, strict=True):
        if c >= threshold:
            shares.setdefault(int(g), []).append(not ok)
    return np.mean([np.mean(share) for share in shares.values()]) if shares else math.nan


def test_a_mean_over_groups_is_that_of_the_plain_loop():
    confidence, correct, number = unequal(np.random.default_rng(0), 400)
    found = find_threshold(confidence, correct, 0.1, groups=number, average="groups")
    assert found.risk == pytest.approx(mean_share(confidence, correct, number, found.threshold))
    assert found.error == pytest.approx(mean_share(confidence, correct, number, 0))
    assert found.risk < found.upper <= 0.1
    order = np.random.default_rng(1).permutation(len(number))
    again = find_threshold(
        confidence[order], correct[order], 0.1, groups=number[order], average="groups"
    )
    assert again.threshold == found.threshold
    alone = np.arange(len(number))
    single = find_threshold(confidence, correct, 0.1, groups=alone, average="groups")
    assert single.threshold == find_threshold(confidence, correct, 0.1).threshold


def test_the_promise_over_groups_holds_and_is_not_empty():
    """At level 0.9 and correlation 0.7; 11 of 40 broken promises would be very unlikely."""
    truth = unequal(np.random.default_rng(99), 6000)
    broken, passed = 0, 0
    for seed in range(40):
        confidence, correct, number = unequal(np.random.default_rng(seed), 1000)
        found = find_threshold(confidence, correct, 0.1, groups=number, average="groups")
        passed += math.isfinite(found.threshold)
        if math.isfinite(found.threshold):
            broken += mean_share(*truth, found.threshold) > 0.1
    assert broken <= 10
    assert passed > 20


def test_the_largest_group_is_not_feared_by_a_mean_over_groups():
    number = np.r_[np.arange(1000), np.full(200, 1000)]
    confidence, correct = np.full(1200, 0.9999), np.ones(1200, bool)
    rows = find_threshold(confidence, correct, 0.01, groups=number)
    groups = find_threshold(confidence, correct, 0.01, groups=number, average="groups")
    assert rows.threshold == math.inf
    assert groups.accepted == 1200


def test_a_single_largest_group_that_is_wrong_counts():
    """1,285 right rows and one group of 20 wrong ones: such groups may make up more than 5 %.

    With 3.4 of them expected the risk is above 5 %, and one in nine samples has a single one.
    """
    number = np.r_[np.arange(1285), np.full(20, 1285)]
    confidence, alone = np.full(1305, 0.95), number < 1285
    assert find_threshold(confidence, alone, 0.05, groups=number).threshold == math.inf
    right = find_threshold(confidence, np.ones(1305, bool), 0.05, groups=number)
    assert right.accepted == 1305


def test_a_few_wrong_ones_of_many_are_not_none():
    right = np.arange(50_000) > 0
    items = Items(np.full(50_000, 0.9), right, 0 * right, types=("*",))
    text = feasibility(guarantee_items(items, 1e-5, 0.1, classes=2))
    assert text.startswith("0.002 % are wrong, so at least 0.001 % must be refused")


def test_float32_confidences_are_accepted_as_they_were_judged():
    """A float32 .9 is below the threshold .9, where it was judged and where it is accepted."""
    confidence = THRESHOLDS.astype(np.float32)
    judged = confidence.astype(np.float64) >= THRESHOLDS
    assert 100 < judged.sum() < len(judged) - 100
    for c, threshold, expected in zip(confidence, THRESHOLDS.tolist(), judged, strict=True):
        policy = Policy("target-risk", 0.05, {"*": threshold}, classes=2, n=9, kept=1.0)
        for way in (Acceptance(least=threshold), Acceptance(policy=policy), policy):
            assert way.decide(np.array([c])) == expected
