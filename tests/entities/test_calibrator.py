"""Confidences of entities that are learned from score, type and length."""

import json
from dataclasses import replace

import numpy as np
import pytest

from calibrant.calibrators import Isotonic
from calibrant.entities import (
    Document,
    Entity,
    EntityCalibrator,
    audit_entities,
    load_entity_calibrator,
    match_entities,
)
from calibrant.entities.entity_claims import claims_of
from calibrant.entities.matching import EntityColumns
from calibrant.errors import InputError, NotFittedError
from calibrant.metrics import Confidences, bin_confidences, ece


@pytest.fixture(scope="module")
def fitted(matched):
    return EntityCalibrator().fit(matched)


def columns(scores, kind="PER", length=5):
    return EntityColumns(
        np.asarray(scores, float),
        np.array([kind] * len(scores), object),
        np.full(len(scores), length),
    )


def test_new_documents_are_claimed_honestly(fitted, unseen):
    right = unseen.right["strict"]
    before = ece(bin_confidences(Confidences(unseen.predicted.score, right)))
    after = ece(bin_confidences(Confidences(fitted.confidence(unseen.predicted), right)))
    assert after < before / 4
    assert fitted.fitted_on_["nll_after"] < fitted.fitted_on_["nll_before"]


@pytest.mark.parametrize("kind", ["PER", "ORG", "never seen"])
@pytest.mark.parametrize("length", [1, 5, 10_000])
def test_never_decreases_with_the_score(fitted, kind, length):
    found = fitted.confidence(columns([0, 1e-300, *np.linspace(0, 1, 1001), 1], kind, length))
    assert (np.diff(np.sort(found)) >= 0).all()
    assert (np.diff(fitted.confidence(columns(np.linspace(0, 1, 1001), kind, length))) >= 0).all()
    assert ((found > 0) & (found < 1)).all()


def test_scores_that_point_the_wrong_way_are_not_used():
    rng = np.random.default_rng(0)
    predicted, gold = [], []
    for score in rng.uniform(0.05, 0.95, 400):
        predicted.append(Document((Entity(0, 4, "A", float(score)),)))
        gold.append(Document((Entity(0, 4 + int(rng.random() < score), "A"),)))
    fitted = EntityCalibrator().fit(match_entities(predicted, gold))
    assert (fitted.weights_[:2] == 0).all()
    assert np.ptp(fitted.confidence(columns([0.1, 0.5, 0.9], "A", 4))) == 0


def test_a_rare_type_stays_near_the_others(matched):
    """Ten wrong entities of a type that is mostly right do not make it worthless."""
    rare = np.flatnonzero(matched.predicted.type == "PER")[:3]
    kinds = matched.predicted.type.copy()
    kinds[rare] = "RARE"
    right = matched.right["strict"].copy()
    right[rare] = False
    data = replace(
        matched, predicted=replace(matched.predicted, type=kinds), right={"strict": right}
    )
    fitted = EntityCalibrator().fit(data)
    loose = EntityCalibrator(shrinkage=1e-6).fit(data)
    assert fitted.confidence(columns([0.9], "RARE"))[0] > 0.15
    assert loose.confidence(columns([0.9], "RARE"))[0] < 0.02
    unseen = fitted.confidence(columns([0.9], "never seen"))[0]
    assert 0.3 < unseen < 0.9


def test_is_the_penalised_maximum_of_the_likelihood(matched):
    """Against a plain optimiser from scipy, with the same penalties."""
    optimize = pytest.importorskip("scipy.optimize")
    fitted = EntityCalibrator(shrinkage=4.0).fit(matched)
    features, kind = fitted._features(matched.predicted)
    right = matched.right["strict"]
    n, positive = len(right), right.sum()
    target = np.where(right, (positive + 1) / (positive + 2), 1 / (n - positive + 2))
    start = np.array([1.0, 1, 0, 0, 0, 0, 0, 0])

    def loss(theta):
        z = features @ theta[:5] + theta[5:][kind]
        penalty = 0.5 * np.sum((theta - start) ** 2 * np.array([1.0] * 5 + [4.0] * 3))
        return np.sum(np.logaddexp(0, z) - target * z) + penalty

    bounds = [(0, None)] * 2 + [(None, None)] * 6
    best = optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds, tol=1e-14)
    ours = np.concatenate([fitted.weights_, list(fitted.types_.values())])
    assert loss(ours) <= best.fun + 1e-6


def test_saves_and_loads_to_the_last_bit(fitted, unseen, tmp_path):
    path = tmp_path / "entities.json"
    fitted.save(path)
    again = load_entity_calibrator(path)
    found = again.confidence(unseen.predicted)
    np.testing.assert_array_equal(found, fitted.confidence(unseen.predicted))
    assert again.fitted_on_ == fitted.fitted_on_
    assert "3 types" in repr(again)
    with pytest.raises(InputError, match="exists"):
        fitted.save(path)
    with pytest.raises(InputError, match=r"saved as \.json"):
        fitted.save(tmp_path / "entities.safetensors")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"signature": "other"}, "not an entity calibrator"),
        ({"format": 99}, "upgrade calibrant"),
        ({"weights": [1, 2]}, "damaged"),
        ({"weights": [-1, 1, 0, 0, 0]}, "damaged"),
        ({"weights": [1, 1, float("nan"), 0, 0]}, "damaged"),
        ({"length": [0, 0, 0, 0]}, "damaged"),
        ({"types": [1]}, "damaged"),
        ({"types": {"PER": "x"}}, "damaged"),
        ({"match": "loose"}, "damaged"),
        ({"fitted_on": 3}, "damaged"),
        ({"renamed": None}, "damaged"),
    ],
)
def test_damaged_files_are_one_line(fitted, tmp_path, change, expected):
    path = tmp_path / "entities.json"
    fitted.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=expected):
        load_entity_calibrator(path)


def test_a_wrong_entity_of_score_one_is_saved_as_json(tmp_path):
    predicted = [Document((Entity(0, 4, "PER", 1.0),)) for _ in range(40)]
    gold = [Document((Entity(0, 4 + i % 2, "PER"),)) for i in range(40)]
    fitted = EntityCalibrator().fit(match_entities(predicted, gold))
    assert fitted.fitted_on_["nll_before"] == np.inf
    fitted.save(tmp_path / "c.json")
    json.loads((tmp_path / "c.json").read_text(), parse_constant=pytest.fail)
    assert load_entity_calibrator(tmp_path / "c.json").fitted_on_ == fitted.fitted_on_


def test_without_scores_type_and_length_count():
    rng = np.random.default_rng(0)
    predicted, gold = [], []
    for i in range(600):
        kind, length = "AB"[i % 2], int(rng.integers(2, 30))
        right = rng.random() < (0.9 if kind == "A" else 0.3)
        predicted.append(Document((Entity(0, length, kind),)))
        gold.append(Document((Entity(0, length if right else length + 1, kind),)))
    matched = match_entities(predicted, gold, scores=False)
    fitted = EntityCalibrator().fit(matched)
    assert fitted.confidence([Entity(0, 9, "A")])[0] == pytest.approx(0.9, abs=0.06)
    assert fitted.confidence([Entity(0, 9, "B")])[0] == pytest.approx(0.3, abs=0.06)
    assert audit_entities(fitted.transform(matched), bootstrap=0).audit["ece"].value < 0.05
    with pytest.raises(InputError, match="needs scores"):
        audit_entities(matched)


def test_refuses_what_it_cannot_learn_from(matched):
    with pytest.raises(NotFittedError):
        EntityCalibrator().confidence([Entity(0, 1, "A", 0.5)])
    one = match_entities([Document((Entity(0, 1, "A", 0.5),))], [Document((Entity(0, 1, "A"),))])
    with pytest.raises(InputError, match="at least 2 documents, got 1 of 1"):
        EntityCalibrator().fit(one)
    with pytest.raises(InputError, match="above 0"):
        EntityCalibrator(shrinkage=0)
    fitted = EntityCalibrator().fit(matched)
    with pytest.raises(InputError, match="fitted with scores"):
        fitted.confidence([Entity(0, 1, "PER")])


def test_all_right_or_all_wrong_stays_finite():
    for wrong in (0, 1):
        predicted = [Document((Entity(0, 4, "A", 1.0),)) for _ in range(30)]
        gold = [Document((Entity(0, 4 + wrong, "A"),)) for _ in range(30)]
        fitted = EntityCalibrator().fit(match_entities(predicted, gold))
        (found,) = fitted.confidence([Entity(0, 4, "A", 1.0)])
        assert abs(found - (1 - wrong)) < 0.1
        assert 0 < found < 1


def test_rescoring_leaves_the_output_as_it_was(fitted):
    output = [[{"entity_group": "PER", "score": 0.9, "start": 0, "end": 4, "word": "rosa"}], []]
    new = fitted.rescore(output)
    assert output[0][0]["score"] == 0.9
    assert new[0][0]["score"] == fitted.confidence([Entity(0, 4, "PER", 0.9)])[0]
    assert new[0][0]["word"] == "rosa"
    assert fitted.rescore([]) == []
    assert fitted.rescore(output[0]) == new[0]


def test_types_are_names_as_they_are():
    """Also those that would be a missing label or a number in a column of labels."""
    predicted = [Document((Entity(0, 3, "NaN", 0.9), Entity(5, 9, "1.0", 0.4)))] * 20
    gold = [Document((Entity(0, 3, "NaN"), Entity(0, 9, "1.0")))] * 20
    matched = match_entities(predicted, gold)
    claims = claims_of(matched, "strict")
    assert claims.text("about").tolist() == ["NaN", "1.0"] * 20
    fitted = EntityCalibrator(of_scores=Isotonic()).fit(matched)
    confidence = fitted.confidence(matched.predicted)
    assert confidence[0] > 0.9 > 0.1 > confidence[1]
