"""A target risk is judged on validation by thresholds that do not depend on it."""

import gc
import weakref

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import CalibrationWarning, Identity, TopLabelIsotonic, Vector
from calibrant.comparison.risk_control import guaranteed_threshold
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.predictor import EntityPredictor

LABELS = ["O", "B-PER"]


def one_word_sentences(n, right, seed):
    """Words that are all taken for persons, with confidences that say nothing about who is one."""
    random = np.random.default_rng(seed)
    confidence = random.uniform(0.6, 1, n)
    labels = (random.random(n) < right).astype(np.int64)
    groups = {"sentence": np.arange(n), "position": np.zeros(n, np.int64)}
    scores = np.stack([1 - confidence, confidence], axis=1)
    return Predictions.from_probabilities(scores, labels, label_names=LABELS, groups=groups)


def predictor(valid):
    return with_map(TopLabelIsotonic(), valid)


def with_map(calibrator, valid):
    return EntityPredictor(None, None, LABELS, EntityConfidence.fit(calibrator.fit(valid), valid))


def test_thresholds_stand_before_validation_is_seen():
    """They are those of the raw confidences, put through the calibrator of entities."""
    valid = one_word_sentences(300, right=0.8, seed=0)
    raw, right = np.asarray(valid.scores)[:, 1], np.asarray(valid.labels) == 1
    together = predictor(valid).span_calibrator("min")
    for target in (0.25, 0.3, 0.5):
        expected = guaranteed_threshold(raw, right, target, 0.9)
        found = predictor(valid).threshold(target, reduction="min")
        assert (found.accepted, found.wrong) == (expected.accepted, expected.wrong)
        assert found.threshold == together.apply(np.array([expected.threshold]))[0]


def test_a_map_of_entities_that_is_flat_accepts_all_or_nothing():
    """Confidences that fall where they should rise: beta is constant, and no threshold parts it."""
    confidence = np.repeat(np.linspace(0.6, 0.99, 40), 10)
    labels = (np.tile(np.arange(10), 40) < np.repeat(np.linspace(10, 5, 40), 10)).astype(np.int64)
    scores = np.stack([1 - confidence, confidence], axis=1)
    valid = Predictions.from_probabilities(
        scores, labels, label_names=LABELS, groups={"sentence": np.arange(400)}
    )
    made = predictor(valid)
    assert np.ptp(made.span_calibrator("min").apply(np.linspace(0, 1, 9))) == 0
    assert made.threshold(0.1, reduction="min").threshold > 1
    found = made.threshold(0.4, reduction="min")
    assert (found.accepted, found.wrong) == (400, (labels == 0).sum())


def test_a_predictor_that_is_no_longer_used_is_let_go():
    made = predictor(one_word_sentences(50, right=0.8, seed=0))
    made.threshold(0.3)
    seen = weakref.ref(made)
    del made
    gc.collect()
    assert seen() is None


def test_words_that_a_map_may_tag_anew_are_mapped_first():
    """Vector scaling changes predictions: entities are those of the calibrated words."""
    valid = one_word_sentences(300, right=0.2, seed=1)
    assert with_map(Vector(), valid).threshold(0.5).entities < len(valid)
    assert predictor(valid).threshold(0.5).entities == len(valid)


def test_a_risk_that_nothing_meets_is_hardly_ever_promised():
    """Every fifth entity is wrong, at any confidence, and the target is a little less."""
    valid = (one_word_sentences(300, right=0.8, seed=seed) for seed in range(40))
    promised = sum(predictor(part).threshold(0.19).threshold <= 1 for part in valid)
    assert promised <= 4


def test_the_promise_is_kept_by_what_is_learned():
    """Right with probability c², c uniform on (.6, 1): the risk from t on is 1 − (1 + t + t²)/3."""
    random, target, broken, accepted = np.random.default_rng(0), 0.15, 0, []
    for _ in range(60):
        confidence = random.uniform(0.6, 1, 600)
        scores = np.stack([1 - confidence, confidence], axis=1)
        labels = (random.random(600) < confidence**2).astype(np.int64)
        groups = {"sentence": np.arange(600)}
        valid = Predictions.from_probabilities(scores, labels, label_names=LABELS, groups=groups)
        made = with_map(Identity(), valid)
        learned = made.threshold(target, reduction="min").threshold
        grid = np.linspace(0.6, 1, 4001)
        raw = grid[made.span_calibrator("min").apply(grid) >= learned]
        t = raw.min() if len(raw) else 1.0
        broken += len(raw) > 0 and 1 - (1 + t + t**2) / 3 > target
        accepted.append((confidence >= t).mean())
    assert broken <= 6
    assert np.mean(accepted) > 0.05  # 0.40 for the threshold whose risk is the target.


def test_one_sentence_is_judged_as_it_is():
    with pytest.warns(CalibrationWarning, match="fell back to identity"):
        made = predictor(one_word_sentences(1, right=1.0, seed=0)).threshold(0.5)
    assert made.threshold > 1
