"""A target risk is judged on sentences that the map was not fitted on."""

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import Beta, TopLabelIsotonic, Vector
from calibrant.comparison.cross_validation import make_folds
from calibrant.metrics import assign_blocks
from calibrant.prediction.predictor import Predictor
from calibrant.prediction.risk_control import guaranteed_threshold

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
    return Predictor(None, None, LABELS, TopLabelIsotonic().fit(valid), valid, 512)


def test_each_sentence_is_judged_by_a_map_that_was_fitted_without_it():
    valid = one_word_sentences(300, right=0.8, seed=0)
    block = assign_blocks(valid)  # One entity a sentence.
    entities = Predictions.from_probabilities(
        np.asarray(valid.scores)[:, 1], valid.labels, groups={"sentence": block}
    )
    folds = make_folds(entities, 5, seed=0).fold
    parts = [Beta().fit(entities[folds != k]).transform(entities[folds == k]) for k in range(5)]
    found = Predictions.concatenate(parts)
    for target in (0.15, 0.25, 0.3):
        expected = guaranteed_threshold(found.scores[:, 1], found.labels == 1, target, 0.9)
        assert predictor(valid).threshold(target) == expected
    by_heart = predictor(valid).entity_map().transform(valid)
    assert not np.array_equal(np.sort(by_heart.confidence), np.sort(found.scores[:, 1]))


def test_words_that_a_map_may_tag_anew_are_mapped_first():
    """Vector scaling changes predictions: entities are those of the calibrated words."""
    valid = one_word_sentences(300, right=0.2, seed=1)
    made = Predictor(None, None, LABELS, Vector().fit(valid), valid, 512)
    assert len(made.entity_map().transform(made._valid_as_new)) < len(valid)
    assert len(predictor(valid).entity_map().transform(valid)) == len(valid)


def test_a_risk_that_nothing_meets_is_hardly_ever_promised():
    """Every fifth entity is wrong, whatever its confidence; nine times in ten must be right."""
    valid = (one_word_sentences(300, right=0.8, seed=seed) for seed in range(40))
    promised = sum(predictor(part).threshold(0.1).threshold <= 1 for part in valid)
    assert promised <= 4


def test_one_sentence_is_judged_as_it_is():
    made = predictor(one_word_sentences(1, right=1.0, seed=0))
    assert made.threshold(0.5).threshold > 1
