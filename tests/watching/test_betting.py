"""Bettors: hand-computed cases, the stated rates by simulation, and what they find."""

import math

import numpy as np
import pytest

from calibrant import Predictions, Temperature
from calibrant.metrics.confidences import top_label
from calibrant.watching.betting import AccuracyBounds, Excuses, HonestyTest
from calibrant.watching.drift_test import DriftTest, log_odds_place


def plain_ranks(reference, values, uniform):
    """Ranks by plain loops: each value among all before it and itself."""
    seen, ranks = list(reference), []
    for value, u in zip(values, uniform, strict=True):
        seen.append(value)
        less = sum(other < value for other in seen)
        equal = sum(other == value for other in seen)
        ranks.append((less + u * equal) / len(seen))
    return ranks


def test_ranks_equal_plain_loops_for_every_cut():
    random = np.random.default_rng(0)
    reference, values = random.integers(0, 20, 50), random.integers(0, 20, 700)
    test = DriftTest(20, seed=3)
    test.learn(reference)
    found = []
    for part in np.split(values, [1, 5, 300, 301, 600]):
        for start in range(0, len(part), 256):
            found.append(test._ranks(part[start : start + 256]))
    wanted = plain_ranks(reference, values, np.random.default_rng(3).random(700))
    np.testing.assert_allclose(np.concatenate(found), wanted)


def test_capital_does_not_depend_on_how_the_stream_is_cut():
    random = np.random.default_rng(0)
    values = random.integers(0, 100, 3000)
    whole, parts = DriftTest(100), DriftTest(100)
    for test in (whole, parts):
        test.learn(random.integers(0, 100, 10) * 0 + np.arange(10))
    whole.add(values)
    for part in np.split(values, [1, 255, 256, 257, 999, 2900]):
        parts.add(part)
    assert whole.log_value == pytest.approx(parts.log_value)
    assert whole.units == parts.units == 3000
    assert parts.largest >= whole.largest - 1e-9


def test_bets_are_fair():
    """Each density has a mean of 1, and the first shares add up to 1."""
    test = DriftTest(5)
    np.testing.assert_allclose(np.exp(test._log_bets).mean(axis=1), 1)
    assert test.value == pytest.approx(1)


def test_false_alarms_of_drift_are_rare():
    """At most 10 % of 200 streams reach 10; the bound of 16 % has a chance of under 1 in 200."""
    alarms = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        test = DriftTest(1040, seed)
        test.learn(log_odds_place(random.beta(8, 1, 300)))
        test.add(log_odds_place(random.beta(8, 1, 2000)))
        alarms += test.largest >= math.log(10)
    assert alarms / 200 <= 0.16


@pytest.mark.parametrize("later", [0, 20_000])
def test_drift_is_found_also_late(later):
    random = np.random.default_rng(1)
    test = DriftTest(1040)
    test.learn(log_odds_place(random.beta(8, 1, 2000)))
    test.add(log_odds_place(random.beta(8, 1, later)))
    assert test.value < 20
    test.add(log_odds_place(random.beta(6, 1, 3000)))
    assert test.value > 1000


def test_one_class_alone_gives_nothing_to_bet_on():
    test = DriftTest(1)
    test.learn(np.zeros(10, int))
    test.add(np.zeros(1000, int))
    assert test.value < 20


def test_places_of_the_ends():
    places = log_odds_place(np.array([0.0, 1e-30, 0.5, 1 - 1e-16, 1.0]))
    assert (np.diff(places) >= 0).all()
    assert places[0] == 0
    assert places[-1] == 1039


def test_bounds_equal_plain_loops():
    """The mixture of empirical Bernstein processes, by its definition."""
    values, level = np.random.default_rng(0).random(60) < 0.8, 0.9
    bounds = AccuracyBounds(level)
    for part in np.split(values, [1, 7, 30]):
        bounds.add(part)
    total = squares = 0.0
    for t, x in enumerate(values.astype(float)):
        squares += (x - (0.5 + total) / (t + 1)) ** 2
        total += x

    def mixture(s):
        sizes = [0.95 * 0.75**j for j in range(32)]
        return sum(math.exp(b * s + (math.log(1 - b) + b) * squares) for b in sizes) / 32

    assert bounds.mean == pytest.approx(values.mean())
    assert mixture(60 * (bounds.mean - bounds.low)) == pytest.approx(2 / (1 - level), rel=1e-5)
    assert bounds.high == pytest.approx(min(2 * bounds.mean - bounds.low, 1.0))


def test_bounds_cover_a_mean_that_changes():
    """The mean so far is inside at all times, and so is the estimate."""
    chance = np.repeat([0.98, 0.7, 0.9], 400)
    truth, missed = np.cumsum(chance) / np.arange(1, 1201), 0
    for seed in range(60):
        values = np.random.default_rng(seed).random(1200) < chance
        bounds, inside = AccuracyBounds(0.8), True
        for part in np.split(values, range(40, 1200, 40)):
            bounds.add(part)
            inside &= bounds.low <= truth[bounds.n - 1] <= bounds.high
            assert bounds.low <= bounds.mean <= bounds.high
        missed += not inside
    assert missed <= 20


def test_bounds_cover_at_all_times():
    """At 80 %, at most 20 % of sequences ever exclude the truth; 30 % of 100 is very unlikely."""
    missed = 0
    for seed in range(100):
        values = np.random.default_rng(seed).random(600) < 0.9
        bounds, inside = AccuracyBounds(0.8), True
        for part in np.split(values, range(20, 600, 20)):
            bounds.add(part)
            inside &= bounds.low <= 0.9 <= bounds.high
        missed += not inside
    assert missed <= 30


@pytest.mark.parametrize("values", [np.ones(500), np.zeros(500)])
def test_bounds_of_certain_answers(values):
    bounds = AccuracyBounds(0.95)
    bounds.add(values)
    assert bounds.low <= values[0] <= bounds.high
    assert bounds.high - bounds.low < 0.02


def test_honesty_by_hand():
    """One right answer at 0.8: half stays out, the rest gains σ(logit 0.8 + δ) / 0.8."""
    test = HonestyTest()
    test.add(np.array([0.8]), np.array([True]), np.array([0]))
    odds = math.log(4)
    bets = [odds + s * d for d in (0.1, 0.25, 0.5, 1, 2) for s in (1, -1)]
    bets += [slope * odds for slope in (0.5, 0.7, 0.85, 1.2, 1.5)]
    factors = [1 / (1 + math.exp(-bet)) / 0.8 for bet in bets]
    assert test.value == pytest.approx(0.5 + 0.5 * sum(factors) / 15)


def test_honesty_does_not_depend_on_how_labels_arrive():
    random = np.random.default_rng(0)
    c = random.uniform(0.5, 1, 500)
    right = random.random(500) < c
    whole, parts = HonestyTest(), HonestyTest()
    whole.add(c, right, np.arange(500))
    for rows in np.split(np.arange(500), [1, 63, 64, 65, 300]):
        parts.add(c[rows], right[rows], rows)
    assert whole.log_value == pytest.approx(parts.log_value)


def test_dishonesty_is_found_late():
    random = np.random.default_rng(0)
    test, c = HonestyTest(), random.uniform(0.5, 1, 4000)
    test.add(c, random.random(4000) < c, np.arange(4000))
    test.add(c[:800], random.random(800) < c[:800] - 0.1, np.arange(800))
    assert test.value > 100


def test_words_of_a_sentence_count_as_one():
    alone, together = HonestyTest(), HonestyTest()
    alone.add(np.full(1, 0.9), np.zeros(1, bool), np.zeros(1, int))
    together.add(np.full(50, 0.9), np.zeros(50, bool), np.zeros(50, int))
    assert together.value == pytest.approx(alone.value)


def test_honest_certainty_is_no_evidence_and_a_mistake_is():
    test = HonestyTest()
    test.add(np.ones(100_000), np.ones(100_000, bool), np.arange(100_000))
    assert test.value <= 1.0 + 1e-9
    test.add(np.ones(30), np.zeros(30, bool), np.arange(30))
    assert test.value > 1e6


def test_false_alarms_of_honesty_are_rare():
    alarms = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        c = random.beta(8, 1, 1000)
        test = HonestyTest()
        test.add(c, random.random(1000) < c, np.arange(1000))
        alarms += test.largest >= math.log(10)
    assert alarms / 300 <= 0.15


def learned_and_new(rows, labels, seed, wrong=0.0):
    """Confidences by a temperature learned on ``rows`` rows: the test, with and without excuses."""
    random = np.random.default_rng(seed)
    z = 3 * random.normal(size=(rows + labels, 2))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    new = np.arange(rows + labels) >= rows
    y = np.where(new & (random.random(len(y)) < wrong), random.integers(0, 2, len(y)), y)
    p = Predictions.from_logits(2 * z, y)
    p = Temperature().fit(p[~new]).transform(p)
    c, _, right = top_label(p)
    excuses = Excuses.of_learning(c[~new], rows, 1.0)
    tests = HonestyTest(excuses), HonestyTest()
    for test in tests:
        test.add(c[new], right[new], np.arange(labels))
    return [test.largest >= math.log(10) for test in tests]


def test_what_few_rows_teach_is_no_alarm():
    found = np.mean([learned_and_new(150, 5000, seed) for seed in range(30)], axis=0)
    assert found[0] <= 0.1 < 0.3 < found[1]


def test_more_than_the_error_of_learning_is_an_alarm():
    assert np.mean([learned_and_new(2000, 5000, seed, 0.2) for seed in range(10)], axis=0)[0] == 1


def test_any_dependence_between_words_of_a_sentence_is_fair():
    """The mean of the factors is at most 1: for words that agree, and for independent ones."""
    random = np.random.default_rng(0)
    for alike in (True, False):
        values = []
        for _ in range(2000):
            right = random.random(1 if alike else 10) < 0.8
            test = HonestyTest()
            test.add(np.full(10, 0.8), np.resize(right, 10), np.zeros(10, int))
            values.append(test.value)
        assert np.mean(values) < 1.01
