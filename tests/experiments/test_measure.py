"""The numbers of a run: a calibrator is judged on validation as if on new data."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import TopLabelIsotonic, Vector
from calibrant.cli.run_numbers import describe_entities
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.cross_validation import make_folds
from calibrant.experiments.measure import measure_run
from calibrant.experiments.outcome import Outcome, record_of
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record, read_record
from calibrant.metrics import ece
from calibrant.metrics.confidences import bin_confidences
from calibrant.tasks import task_of
from calibrant.tasks.ner.entity_confidence import EntityConfidence

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
    expected = task_of("ner").measure(Predictions.concatenate(parts))
    found = results["isotonic-top-label"]["cross_validated"]
    assert found == pytest.approx(expected)
    # On what it was fitted on, isotonic regression has next to no error: no ground to choose by.
    assert results["isotonic-top-label"]["valid"]["ece"] < found["ece"] / 2
    assert results["identity"]["cross_validated"] == results["identity"]["valid"]


def test_an_error_of_zero_leaves_a_record_that_is_json(tmp_path):
    """APCR = F1² / ECE is infinite then, which JSON has no word for."""
    groups = {"sentence": np.zeros(3, np.int64), "position": np.arange(3)}
    sure = Predictions.from_logits(200 * np.eye(3), [0, 1, 2], label_names=NAMES, groups=groups)
    numbers = task_of("ner").measure(sure)
    assert (numbers["ece"], numbers["apcr"]) == (0, math.inf)
    path = Record(Recipe(), {"identity": {"test": numbers}}, {}, {}).write(tmp_path)
    json.loads(path.read_text(), parse_constant=pytest.fail)
    assert read_record(path).results["identity"]["test"]["apcr"] == math.inf
    wrong = Predictions.from_logits(200 * np.eye(3)[[0] * 3], [0] * 3, label_names=NAMES)
    assert math.isnan(task_of("ner").measure(wrong)["apcr"])  # No entity: no F1.


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


def test_the_map_in_use_tells_of_whole_entities_what_predict_will_say():
    valid, test = words(200, 0), words(200, 1)
    results = measure_run(valid, test, calibrator="temperature")
    assert "entities" not in results["identity"]
    made = results["temperature"]["entities"]
    fitted = SpanCalibrator().fit(valid)
    found = fitted.transform(test)
    assert made["reduction"] == fitted.reduction_
    assert made["examples"] == len(found)
    assert made["accuracy"] == pytest.approx(found.correct.mean())
    assert made["ece"] == pytest.approx(ece(bin_confidences(found)))


def test_a_calibrator_that_changes_tags_is_measured_with_its_own_entities():
    """As a predictor has them: learned from words that were calibrated out of fold."""
    valid, test = words(200, 0), words(200, 1)
    made = measure_run(valid, test, calibrator="vector")["vector"]["entities"]
    fitted = Vector().fit(valid)
    used = EntityConfidence.fit(fitted, valid).span_calibrator()
    found = used.transform(fitted.transform(test))
    assert made["examples"] == len(found) != len(SpanCalibrator().fit(valid).transform(test))
    assert made["ece"] == pytest.approx(ece(bin_confidences(found)))


def test_a_grid_tells_of_entities_under_its_own_choice_alone():
    recipe = Recipe.from_dict({"data": "synthetic"})
    for p in (words(60, 0), words(60, 3)):
        results = record_of(Outcome(recipe, p, words(60, 1), {}, {}), {}).results
        assert [name for name, numbers in results.items() if "entities" in numbers] == ["auto"]


def test_without_entities_in_the_test_split_there_is_nothing_to_tell():
    outside = words(30, 1).with_scores(np.tile([9.0, 0.0, 0.0], (180, 1)), "logits")
    results = measure_run(words(60, 0), outside, calibrator="temperature")["temperature"]
    assert results["entities"]["examples"] == 0
    assert math.isnan(results["entities"]["ece"])
    assert describe_entities(results) == describe_entities({}) == []
