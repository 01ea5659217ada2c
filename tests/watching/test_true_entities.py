"""The number of true entities that the probabilities of words stand for."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions, watch
from calibrant.metrics import entity_f1
from calibrant.metrics.tags import TagSet
from calibrant.watching.pieces import unlabelled
from calibrant.watching.sums import ChunkSums, expected_entity_f1, row_sums
from calibrant.watching.true_entities import OpeningRates, learn_rates, opening_parts

NAMES = ("O", "B-X", "I-X", "B-Y", "I-Y")


def misread(n, share, seed):
    """Words whose shown tag is honest, while the model is wrong about what else there may be.

    A ``share`` of the words is misread: an opening tag is shown with a confidence of a half, and
    the model takes the other type for what is left. But half of them are no entity at all.
    """
    random = np.random.default_rng(seed)
    p = np.tile([0.96, 0.02, 0.0, 0.02, 0.0], (n, 1))
    opening = random.random(n) < 0.2
    p[opening] = [0.1, 0.9, 0.0, 0.0, 0.0]
    missed = random.random(n) < share
    p[missed] = [0.04, 0.5, 0.0, 0.46, 0.0]
    truth = p.copy()
    truth[missed] = [0.5, 0.5, 0.0, 0.0, 0.0]
    labels = (truth.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    groups = {"sentence": np.arange(n) // 10}
    return Predictions.from_probabilities(p, labels, label_names=NAMES, groups=groups)


def test_words_that_open_nothing_are_learned_from_the_reference():
    reference, new = misread(20_000, 0.05, 0), misread(20_000, 0.4, 1)
    found = watch(unlabelled(new), reference=reference).total.expected_entity_f1
    true = entity_f1(new)
    assert found.value == pytest.approx(true, abs=0.02)
    assert found.low < true < found.high


def test_the_interval_allows_for_the_error_of_the_rates():
    p = misread(400, 0.05, 0)
    found = row_sums(p.scores, p.scores.argmax(axis=1), p.scores.max(axis=1))
    sums = ChunkSums(400, above=0, shown=found["predicted"], places=np.zeros(1), **found)
    parts = np.array([50.0, 20.0, 5.0, 10.0])
    sums = replace(sums, entities=80, entities_found=50.0, entities_mass=parts)
    sure = OpeningRates(np.ones(4), np.zeros(4))
    value, low, high = expected_entity_f1(sums, 0.95, rates=sure)
    assert value == pytest.approx(100 / (80 + 85))
    assert (low, high) == (value, value)
    unsure = expected_entity_f1(sums, 0.95, rates=sure._replace(variance=np.full(4, 0.1)))
    spread = value / (80 + 85) * np.sqrt(0.1 * (parts**2).sum())
    assert unsure.high - value == pytest.approx(1.959964 * spread)


def test_rates_fit_the_reference():
    p = misread(3000, 0.1, 0)
    tags = TagSet.of(NAMES)
    predicted, true = p.scores.argmax(axis=1), 700
    rates = learn_rates(p.scores, predicted, p.labels, tags, true)
    assert opening_parts(p.scores, predicted, tags).sum(axis=0) @ rates.rate == pytest.approx(true)
    assert rates.rate[1] < 0.3 * rates.rate[0]
    assert rates.variance[0] == 0
    assert (rates.variance[1:] > 0).all()


def test_parts_add_up_to_the_opening_probability():
    p = np.random.default_rng(0).dirichlet(np.ones(5), 200)
    parts = opening_parts(p, p.argmax(axis=1), TagSet.of(NAMES))
    assert parts.sum(axis=1) == pytest.approx(p[:, [1, 3]].sum(axis=1))


def test_without_entities_nothing_is_learned():
    p = np.tile([0.9, 0.1], (50, 1))
    rates = learn_rates(p, np.zeros(50, int), np.zeros(50, int), TagSet.of(["O", "B-X"]), 0)
    assert rates.rate[3] == 0  # The reference has none, so none are expected.
    assert np.isfinite(rates.variance).all()


def test_tags_without_opening_ones_count_words_inside():
    tags = TagSet.of(["O", "I-X"])
    p = np.array([[0.3, 0.7], [0.8, 0.2]])
    assert opening_parts(p, np.array([1, 0]), tags).sum(axis=0) == pytest.approx([0.7, 0, 0, 0.2])
