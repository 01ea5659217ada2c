"""The calibrator of a run is chosen on validation only, and keeps every prediction."""

import numpy as np
import pytest

from calibrant import Predictions, ece
from calibrant.calibrators import CALIBRATORS
from calibrant.errors import InputError
from calibrant.experiments.outcome import CANDIDATES, Outcome, choose_calibrator, record_of
from calibrant.experiments.recipe import Recipe


def sample(n=4000, classes=4, seed=0, bend=None):
    """Calibrated logits, or such whose confidence was bent by a function of the probability."""
    random = np.random.default_rng(seed)
    logits = 2 * random.normal(size=(n, classes))
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if bend is not None:
        top = probabilities.argmax(axis=1)
        confidence = probabilities[np.arange(n), top]
        probabilities *= ((1 - bend(confidence)) / (1 - confidence))[:, None]
        probabilities[np.arange(n), top] = bend(confidence)
    return Predictions.from_probabilities(probabilities, labels)


def test_every_candidate_keeps_the_prediction():
    assert all(CALIBRATORS[name].calibrator.keeps_argmax for name in CANDIDATES)


def test_what_one_temperature_mends_gets_a_temperature():
    p = sample()
    hot = Predictions.from_logits(3 * np.log(p.scores), p.labels)
    assert choose_calibrator("auto", hot).name == "temperature"


def test_what_is_bent_in_the_middle_gets_more_than_a_temperature():
    bent = sample(20_000, bend=lambda c: np.where(c > 0.8, c, 0.8 + (c - 0.25) * 0.1))
    chosen = choose_calibrator("auto", bent)
    assert chosen.name == "spline"
    assert ece(chosen.transform(bent)) < 0.02 < ece(bent)
    assert (chosen.transform(bent).scores.argmax(axis=1) == bent.scores.argmax(axis=1)).all()


def test_a_map_can_be_named():
    assert choose_calibrator("beta", sample()).name == "beta"


def test_one_sentence_gets_a_temperature():
    p = sample(30)
    one = Predictions.from_probabilities(
        p.scores, p.labels, groups={"sentence": np.zeros(30, np.int64)}
    )
    assert choose_calibrator("auto", one).name == "temperature"


@pytest.mark.parametrize("setting", [{"calibrator": "tempature"}, {"measure": ["tempature"]}])
def test_an_unknown_map_is_named_before_training(setting):
    with pytest.raises(InputError, match=r"tempature.*temperature"):
        Recipe(**setting)


@pytest.mark.parametrize("name", ["type-temperature", "position-temperature"])
@pytest.mark.parametrize("task", ["text", "image", "segmentation"])
def test_a_map_that_a_task_has_no_data_for_is_named_before_training(task, name):
    for setting in ({"calibrator": name}, {"measure": ["identity", "temperature", name]}):
        Recipe(**setting)
        with pytest.raises(InputError, match=f"{name} is a calibrator of task 'ner', not '{task}'"):
            Recipe.from_dict({"task": task, **setting})


@pytest.mark.parametrize("more", [[], ["spline"]])
def test_of_each_map_a_record_has_what_the_records_of_other_choices_have(more):
    """Else a table would compare calibrators by the runs that chose them."""
    bent = sample(20_000, bend=lambda c: np.where(c > 0.8, c, 0.8 + (c - 0.25) * 0.1))
    found = []
    for p in (bent, sample()):
        maps = ["identity", "temperature", *more]
        recipe = Recipe.from_dict({"task": "text", "data": "synthetic", "measure": maps})
        found.append(record_of(Outcome(recipe, p, p, {}, {"typos-1": p}), {}))
    assert [r.training["calibrator"] for r in found] == ["spline", "identity"]
    for record in found:
        assert set(record.results) == {*maps, "auto"}
        having = {name for name, numbers in record.results.items() if "shift" in numbers}
        assert having == {"identity", "temperature", "auto"}


@pytest.mark.parametrize("calibrator", ["auto", "beta", "temperature"])
def test_a_record_tells_what_its_recipe_is_used_with(calibrator):
    valid, test = (
        Predictions.from_logits(3 * np.log(p.scores), p.labels) for p in (sample(), sample(seed=1))
    )
    recipe = Recipe.from_dict({"task": "text", "data": "synthetic", "calibrator": calibrator})
    record = record_of(Outcome(recipe, valid, test, {"steps": 1}, {"typos-1": test}), {})
    chosen = record.training["calibrator"]
    assert chosen == choose_calibrator(calibrator, valid).name
    assert record.results[calibrator] == record.results[chosen]
    assert {"test", "valid", "cross_validated", "shift"} <= set(record.results[calibrator])
    assert {"identity", "temperature", calibrator} <= set(record.results)
