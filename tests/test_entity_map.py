"""The confidence of a whole entity: learned on validation, whatever its words say."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.calibrators import Beta, Temperature, TopLabelIsotonic, Vector
from calibrant.comparison import EntityMap
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.entity_map import entity_words, new_entity_words
from calibrant.errors import InputError, NotFittedError
from calibrant.metrics import ece, entity_ece
from calibrant.metrics.confidences import bin_confidences

LABELS = ["O", "B-X", "I-X"]
REDUCE = {"product": np.prod, "min": np.min, "mean": np.mean}


def sentences(random, n, chance):
    """One entity of one to four words a sentence, right as a whole with probability chance(c)."""
    scores, labels, sentence = [], [], []
    for number in range(n):
        words = random.uniform(0.4, 1, random.integers(1, 5))
        right = random.random() < chance(words)
        for place, confidence in enumerate(words):
            rest, tag = (1 - confidence) / 2, 1 if place == 0 else 2
            scores.append([confidence if k == tag else rest for k in range(3)])
            labels.append(tag if right else 0)
            sentence.append(number)
    return Predictions.from_probabilities(
        scores, labels, label_names=LABELS, groups={"sentence": sentence}
    )


def plain(predictions, reduction):
    """One (confidence, right?, sentence) per sentence of :func:`sentences`, by hand."""
    top, number = np.asarray(predictions.scores).max(axis=1), predictions.groups["sentence"]
    for one in np.unique(number):
        rows = number == one
        yield REDUCE[reduction](top[rows]), bool((predictions.labels[rows] > 0).all()), one


def beta_of(confidence, right):
    smooth = Beta(smooth_targets=True)
    return smooth.fit(Predictions.from_probabilities(confidence, np.asarray(right, int)))


@pytest.mark.parametrize("reduction", REDUCE)
def test_it_is_a_beta_map_of_the_reduced_confidences(reduction):
    random = np.random.default_rng(0)
    valid, test = (sentences(random, 200, np.mean) for _ in range(2))
    confidence, right, _ = zip(*plain(valid, reduction), strict=True)
    fitted = beta_of(confidence, right)
    new, truth, _ = zip(*plain(test, reduction), strict=True)
    expected = fitted.transform(Predictions.from_probabilities(new, np.zeros(len(new), int)))
    made = EntityMap(reduction).fit(valid).transform(test)
    np.testing.assert_allclose(made.confidence, expected.scores[:, 1], rtol=1e-9)
    np.testing.assert_array_equal(made.correct, truth)


def test_words_that_a_map_tags_anew_are_those_of_maps_that_have_not_seen_them():
    valid, test = (sentences(np.random.default_rng(seed), 60, np.mean) for seed in (1, 2))
    for kept in (Temperature(), TopLabelIsotonic()):
        fitted = kept.fit(valid)
        assert new_entity_words(fitted, valid) is valid
        assert entity_words(fitted, test) is test
    folds = make_folds(valid, 5, seed=0).fold
    for changed in (Vector(), TopLabelIsotonic(keep_prediction=False)):
        fitted, made = copy.deepcopy(changed).fit(valid), np.empty(valid.scores.shape)
        for k in range(5):
            other = copy.deepcopy(changed).fit(valid[folds != k])
            made[folds == k] = other.transform(valid[folds == k]).scores
        found = new_entity_words(fitted, valid)
        np.testing.assert_array_equal(found.scores, made)
        np.testing.assert_array_equal(found.labels, valid.labels)
        np.testing.assert_array_equal(found.groups["sentence"], valid.groups["sentence"])
        np.testing.assert_array_equal(
            entity_words(fitted, test).scores, fitted.transform(test).scores
        )


def test_one_sentence_that_a_map_tags_anew_is_mapped_as_it_is():
    one = sentences(np.random.default_rng(1), 1, np.mean)
    fitted = Vector().fit(one)
    np.testing.assert_array_equal(
        new_entity_words(fitted, one).scores, fitted.transform(one).scores
    )


@pytest.mark.parametrize(
    ("truth", "chosen"), [(np.mean, "mean"), (np.min, "min"), (np.prod, "product")]
)
def test_validation_chooses_what_entities_follow(truth, chosen):
    valid = sentences(np.random.default_rng(2), 3000, truth)
    assert EntityMap().fit(valid).reduction_ == chosen


def test_entities_become_honest_where_a_map_of_words_does_not_make_them():
    random = np.random.default_rng(3)
    valid, test = (sentences(random, 2000, np.mean) for _ in range(2))
    words = TopLabelIsotonic().fit(valid).transform(test)
    assert entity_ece(words) > 0.15
    assert ece(bin_confidences(EntityMap().fit(valid).transform(test))) < 0.04


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(REDUCE)))
def test_the_order_of_entities_is_kept(seed, reduction):
    valid = sentences(np.random.default_rng(seed), 30, np.mean)
    values = np.linspace(0, 1, 50)
    mapped = EntityMap(reduction).fit(valid).apply(values)
    assert ((mapped >= 0) & (mapped <= 1)).all()
    assert (np.diff(mapped) >= -1e-12).all()


def test_with_nothing_to_learn_from_it_is_the_product():
    one = Predictions.from_probabilities(
        [[0.1, 0.9, 0.0], [0.2, 0.0, 0.8]], [1, 2], label_names=LABELS, groups={"sentence": [0, 0]}
    )
    none = Predictions.from_probabilities([[0.9, 0.1, 0.0]] * 3, [0, 0, 1], label_names=LABELS)
    for valid in (one, none):
        fitted = EntityMap().fit(valid)
        assert fitted.transform(one).confidence == pytest.approx([0.72])
        assert len(fitted.transform(none)) == 0


def test_two_sentences_whose_hashes_meet_count_as_one():
    """Cross-validation deals hashes of sentences to its folds: it would find one alone."""
    scores, groups = [[0.1, 0.9, 0.0], [0.3, 0.7, 0.0]], {"sentence": [20, 23]}
    valid = Predictions.from_probabilities(scores, [1, 0], label_names=LABELS, groups=groups)
    assert EntityMap().fit(valid).transform(valid).confidence == pytest.approx([0.9, 0.7])


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_all_right_or_all_wrong_is_finite(right):
    valid = sentences(np.random.default_rng(4), 50, lambda _: right)
    mapped = EntityMap().fit(valid).transform(valid).confidence
    assert np.isfinite(mapped).all()
    assert abs(mapped - right).max() < 0.1
    assert abs(mapped.mean() - right) >= 0.999 / 52  # Fifty in a row are no certainty.


def test_few_wrong_entities_do_not_make_the_others_certain():
    """Two of eighty are wrong, and lie lowest: a map of the labels as they are says 0.9999."""
    confidence = np.r_[0.35, 0.36, np.linspace(0.5, 0.52, 78)]
    scores = np.stack([(1 - confidence) / 2, confidence, (1 - confidence) / 2], axis=1)
    labels = np.r_[0, 0, np.ones(78, int)]
    p = Predictions.from_probabilities(
        scores, labels, label_names=LABELS, groups={"sentence": np.arange(80)}
    )
    found = EntityMap().fit(p).transform(p).confidence
    assert found.max() < 0.995


def test_confidences_of_exactly_0_and_1_stay_finite():
    scores = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]] * 20
    labels = [1, 0, 1, 0] * 20
    p = Predictions.from_probabilities(scores, labels, label_names=LABELS)
    assert np.isfinite(EntityMap().fit(p).apply(np.array([0.0, 0.5, 1.0]))).all()


def test_wrong_use_is_told():
    with pytest.raises(InputError, match="reduction"):
        EntityMap("sum")
    with pytest.raises(NotFittedError, match="fit"):
        EntityMap().apply(np.array([0.5]))
    with pytest.raises(InputError, match="one number per entity"):
        EntityMap().fit(sentences(np.random.default_rng(0), 9, np.mean)).apply(np.array(0.5))
    with pytest.raises(InputError, match="lie in"):
        EntityMap().fit(sentences(np.random.default_rng(0), 9, np.mean)).apply(np.array([2.0]))
    with pytest.raises(NotFittedError, match="fit"):
        EntityMap().transform(sentences(np.random.default_rng(0), 9, np.mean))
    with pytest.raises(InputError):  # Classes that are no tags.
        EntityMap().fit(Predictions.from_probabilities([[0.9, 0.1]], [0]))
