"""Policies as data: saved and loaded to the last bit, decisions, and every kind of bad input."""

import json
import math

import numpy as np
import pytest

from calibrant.calibrators import Temperature
from calibrant.errors import InputError
from calibrant.policies import Policy, calibrator_fingerprint, load_policy
from calibrant.predictions import Predictions

TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def policy(**changes):
    values = {"kind": "target-risk", "target": 0.05, "thresholds": {"*": 0.8}, "classes": 2}
    return Policy(**{**values, "n": 100, "kept": 0.5, "promise": "words", **changes})


def test_a_saved_policy_comes_back(tmp_path):
    made = policy(
        thresholds={"cat": 1 / 3, "dog": math.inf}, label_names=("cat", "dog"), level=0.9,
        unit="sentence", units=7, settings={"seed": 1}, review={"threshold": 0.25},
    )  # fmt: skip
    made.save(tmp_path / "policy.json")
    assert vars(load_policy(tmp_path / "policy.json")) == vars(made)
    with pytest.raises(InputError, match="exists"):
        made.save(tmp_path / "policy.json")
    assert str(made) == "words"


def test_decisions():
    assert policy().decide([0.79, 0.8, 1.0]).tolist() == [False, True, True]
    p = Predictions.from_probabilities([0.9, 0.25, 0.6], [1, 0, 1])
    assert policy().decide(p).tolist() == [True, False, False]
    assert policy(thresholds={"*": math.inf}).decide([1.0]).tolist() == [False]
    assert policy().decide([]).tolist() == []


def test_a_threshold_for_each_type():
    made = policy(thresholds={"cat": 0.9}, label_names=("cat", "dog"))
    assert made.decide([0.95, 0.8, 1.0], ["cat", "cat", "dog"]).tolist() == [True, False, False]
    assert made.decide([0.95, 1.0], [0, 1]).tolist() == [True, False]
    with pytest.raises(InputError, match="Unknown type of this policy: 'cow'"):
        made.decide([0.9], ["cow"])
    with pytest.raises(InputError, match="pass the predicted label"):
        made.decide([0.9])
    with pytest.raises(InputError, match="one label for each of 2"):
        made.decide([0.9, 0.9], ["cat"])


def test_entities_of_tags():
    scores = np.full((4, 5), 0.02)
    scores[[0, 1, 2, 3], [1, 2, 0, 3]] = 0.92, 0.92, 0.92, 0.92
    p = Predictions.from_probabilities(scores, [1, 2, 0, 3], label_names=TAGS)
    made = policy(items="entities", reduction="product", classes=5, thresholds={"*": 0.9})
    assert made.decide(p).tolist() == [False, True]  # 0.92² < 0.9
    per = policy(
        items="entities", reduction="min", classes=5, label_names=tuple(TAGS),
        thresholds={"LOC": 0.9, "PER": 0.95},
    )  # fmt: skip
    assert per.types == ("LOC", "PER")
    assert per.decide(p).tolist() == [True, False]
    with pytest.raises(InputError, match="predict --policy"):
        policy(items="entities", classes=5).decide(p)


@pytest.mark.parametrize("bad", [[math.nan], [1.2], [-0.1], [[0.5]], "abc", ["0.5"]])
def test_confidences_that_are_none(bad):
    with pytest.raises(InputError, match="onfidences"):
        policy().decide(bad)


def test_another_model_label_set_or_map():
    logits = np.random.default_rng(0).normal(size=(60, 2)) * 3
    p = Predictions.from_logits(logits, (logits[:, 1] + logits[::-1, 0] > 0).astype(int))
    own, other = Temperature().fit(p), Temperature().fit(p[:40])
    made = policy(label_names=("cat", "dog"), calibrator=calibrator_fingerprint(own), model="m1")
    made.check(label_names=["cat", "dog"], calibrator=calibrator_fingerprint(own), model="m1")
    made.check()
    with pytest.raises(InputError, match="labels cat, dog, got cat, cow"):
        made.check(label_names=["cat", "cow"])
    with pytest.raises(InputError, match="another calibrator"):
        made.check(calibrator=calibrator_fingerprint(other))
    with pytest.raises(InputError, match="another model"):
        made.check(model="m2")
    with pytest.raises(InputError, match="2 classes, got 3"):
        made.decide(Predictions.from_logits([[1.0, 0.0, 0.0]], [0]))


def test_the_wrong_kind_of_policy():
    p = Predictions.from_logits([[1.0, 0.0]], [0])
    with pytest.raises(InputError, match="--coverage"):
        policy().sets(p)
    with pytest.raises(InputError, match=r"policy.sets\(predictions\)"):
        policy(kind="coverage").decide(p)
    with pytest.raises(InputError, match="--max-missed"):
        policy().to_review(p)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not a policy"),
        ("[]", "not a policy"),
        ('{"signature": "calibrant calibrator"}', "not a policy"),
        ('{"signature": "calibrant policy", "format": 9, "version": "3"}', "upgrade calibrant"),
        ('{"signature": "calibrant policy", "format": 1}', "not a policy"),
    ],
)
def test_damaged_files(tmp_path, text, expected):
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(InputError, match=expected):
        load_policy(path)


def test_damaged_values(tmp_path):
    path = tmp_path / "policy.json"
    for change in ({"kind": "magic"}, {"thresholds": {"*": "nan"}}, {"thresholds": None}):
        path.write_text(json.dumps({**policy().to_dict(), **change}))
        with pytest.raises(InputError, match="not a policy"):
            load_policy(path)
    with pytest.raises(InputError, match="There is no policy"):
        load_policy(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"saved as \.json"):
        policy().save(tmp_path / "policy.txt")
