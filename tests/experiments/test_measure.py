"""The numbers of a run: a map is judged on validation as on new data."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import TopLabelIsotonic
from calibrant.comparison.cross_validation import make_folds
from calibrant.experiments.measure import measure_run, measure_tags

NAMES = ["O", "B-PER", "I-PER"]


def words(sentences, seed):
    """Too confident predictions of sentences of six words."""
    random = np.random.default_rng(seed)
    n = 6 * sentences
    labels = random.choice(3, n, p=[0.8, 0.1, 0.1])
    logits = 3 * (random.normal(size=(n, 3)) + np.eye(3)[labels] + [1, 0, 0])
    groups = {"sentence": np.arange(n) // 6, "position": np.arange(n) % 6}
    return Predictions.from_logits(logits, labels, label_names=NAMES, groups=groups)


def test_cross_validated_is_what_maps_fitted_without_a_sentence_make_of_it():
    valid, test = words(200, 0), words(100, 1)
    results = measure_run(valid, test, ["identity", "isotonic-top-label"])
    folds = make_folds(valid, 5, seed=0)
    parts = []
    for number in range(5):
        inside = folds.fold == number
        assert not set(valid.groups["sentence"][inside]) & set(valid.groups["sentence"][~inside])
        parts.append(TopLabelIsotonic().fit(valid[~inside]).transform(valid[inside]))
    expected = measure_tags(Predictions.concatenate(parts))
    found = results["isotonic-top-label"]["cross_validated"]
    assert found == pytest.approx(expected)
    # On what it was fitted on, isotonic regression has next to no error: no ground to choose by.
    assert results["isotonic-top-label"]["valid"]["ece"] < found["ece"] / 2
    assert results["identity"]["cross_validated"] == results["identity"]["valid"]


def test_the_predictions_of_a_top_label_map_are_those_before_it():
    valid, test = words(50, 0), words(50, 1)
    results = measure_run(valid, test, ["identity", "isotonic-top-label", "histogram-top-label"])
    scores = {name: split["test"]["entity_f1"] for name, split in results.items()}
    assert len(set(scores.values())) == 1


@pytest.mark.parametrize("first", range(6))
def test_two_sentences_are_enough(first):
    """Whatever their numbers: blocks are hashes of them."""
    valid = words(2, 0)
    sentence = np.where(valid.groups["sentence"] == 0, first, 40)
    valid = replace(valid, groups={**valid.groups, "sentence": sentence})
    assert "cross_validated" in measure_run(valid, words(20, 1))["temperature"]


def test_one_sentence_cannot_be_cross_validated():
    results = measure_run(words(1, 0), words(20, 1))
    assert "cross_validated" not in results["temperature"]
