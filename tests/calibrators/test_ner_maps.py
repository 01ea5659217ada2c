"""Temperatures per entity type and per position."""

import numpy as np
import pytest
from calibrator_samples import NAMES, gradient, overconfident, quiet_fit, tagged

from calibrant import InputError, Predictions
from calibrant.calibrators import PositionTemperature, Temperature, TypeTemperature
from calibrant.calibrators.grouped_temperature import entity_types
from calibrant.metrics import nll


def by_type(n=6000, seed=0):
    """O is calibrated; predicted PER is 4 times and LOC 2 times overconfident."""
    p = overconfident(n=n, classes=5, scale=1.0, seed=seed)
    factor = np.array([1.0, 4.0, 4.0, 2.0, 2.0])[p.scores.argmax(axis=1)]
    groups = {"position": np.arange(n) % 40}
    scores = p.scores * factor[:, None]
    return Predictions.from_logits(scores, p.labels, label_names=NAMES, groups=groups)


def test_types_find_their_temperatures():
    fitted = TypeTemperature().fit(by_type())
    temperatures = fitted.by_type()
    assert list(temperatures) == ["O", "PER", "LOC"]
    assert temperatures["O"] == pytest.approx(1, rel=0.15)
    assert temperatures["PER"] == pytest.approx(4, rel=0.15)
    assert temperatures["LOC"] == pytest.approx(2, rel=0.15)
    new = by_type(seed=1)
    assert nll(fitted.transform(new)) < nll(Temperature().fit(by_type()).transform(new)) - 0.01


def test_each_token_is_divided_by_the_temperature_of_its_predicted_type():
    p = by_type(n=300)
    fitted = TypeTemperature().fit(p)
    result = fitted.transform(p)
    table = fitted.by_type()
    for row, scores in zip(p.scores, result.scores, strict=True):
        name = NAMES[row.argmax()]
        np.testing.assert_allclose(scores, row / table[name.split("-")[-1]])


def test_few_examples_take_the_common_temperature():
    p = by_type(n=300)
    fitted = TypeTemperature(fewest=10_000).fit(p)
    assert (fitted.temperatures_ == fitted.temperature_).all()
    common = Temperature().fit(p).temperature_
    assert fitted.temperature_ == pytest.approx(common, rel=1e-9)


def test_spread_sets_the_pull():
    p = by_type(n=400)
    tight, loose = (TypeTemperature(spread=s, fewest=1).fit(p) for s in (1e-4, 1e4))
    np.testing.assert_allclose(tight.temperatures_, tight.temperature_, rtol=1e-3)
    types = loose.type_of_class_[p.scores.argmax(axis=1)]
    for t, temperature in enumerate(loose.temperatures_):
        rows = types == t
        assert abs(gradient(p.scores[rows], p.labels[rows], temperature)) < 1e-6


def test_pull_minimises_its_objective():
    p = by_type(n=120)
    fitted = TypeTemperature(spread=0.3, fewest=1).fit(p)
    types = fitted.type_of_class_[p.scores.argmax(axis=1)]
    rows = types == 1
    part = Predictions.from_logits(p.scores[rows], p.labels[rows])

    def objective(temperature):
        away = fitted.temperature_ / temperature - 1
        scaled = part.with_scores(part.scores / temperature, "logits")
        return len(part) * nll(scaled) + (away / 0.3) ** 2 / 2

    best = objective(fitted.temperatures_[1])
    assert best <= min(objective(t) for t in np.geomspace(0.2, 20, 400)) + 1e-9


def test_group_in_which_all_are_right_stays_near_the_common_temperature():
    p = tagged(n=400)
    predicted = p.scores.argmax(axis=1)
    labels = np.where(predicted == 0, 0, p.labels)  # Every predicted O is right.
    q = Predictions.from_logits(p.scores, labels, label_names=NAMES, groups=p.groups)
    fitted = TypeTemperature().fit(q)
    assert 0.2 < fitted.by_type()["O"] < fitted.temperature_


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, "needs label_names"),
        (("cat", "dog", "cow", "bee", "ant"), "expects BIO tags .* got 'cat'"),
        (("O", "PER", "I-PER", "B-LOC", "I-LOC"), "got 'PER'"),
    ],
)
def test_other_labels_are_refused(names, message):
    p = overconfident(n=30, classes=5)
    q = Predictions.from_logits(p.scores, p.labels, label_names=names)
    with pytest.raises(InputError, match=message):
        TypeTemperature().fit(q)


def test_entity_types_of_other_schemes():
    types, of_class = entity_types(["B-A", "E-A", "S-A", "O", "L-B-C", "U-B-C"])
    assert types == ["A", "O", "B-C"]
    assert of_class.tolist() == [0, 0, 0, 1, 2, 2]


def test_positions_find_their_temperatures():
    p = overconfident(n=6000, classes=4, scale=1.0)
    position = np.arange(6000) % 10
    factor = np.where(position == 0, 5.0, np.where(position < 4, 2.0, 1.0))
    q = Predictions.from_logits(p.scores * factor[:, None], p.labels, groups={"position": position})
    fitted = PositionTemperature().fit(q)
    np.testing.assert_allclose(fitted.temperatures_[:5], [5, 2, 2, 1, 1], rtol=0.2)
    assert (fitted.temperatures_[5:] == fitted.temperature_).all()
    expected = q.scores / fitted.temperatures_[[0, 1, 2, 2, 3, 3, 3, 3, 4, 4] * 600][:, None]
    np.testing.assert_allclose(fitted.transform(q).scores, expected)


def test_positions_are_checked():
    p = overconfident(n=30)
    bare = Predictions.from_logits(p.scores, p.labels)
    with pytest.raises(InputError, match=r"needs groups\['position'\]"):
        PositionTemperature().fit(bare)
    fitted = quiet_fit(PositionTemperature(), p)
    with pytest.raises(InputError, match=r"needs groups\['position'\]"):
        fitted.transform(bare)
    for wrong in (np.full(30, -1), np.full(30, 0.5)):
        with pytest.raises(InputError, match="whole numbers from 0"):
            PositionTemperature().fit(
                Predictions.from_logits(p.scores, p.labels, groups={"position": wrong})
            )
    with pytest.raises(InputError, match="ascending starts from 0"):
        PositionTemperature(starts=(1, 2)).fit(p)
