"""Sample weights: what holds for every calibrator of the table."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from calibrator_samples import as_probabilities, quiet_fit, tagged

from calibrant import Claims, InputError, Predictions
from calibrant.calibrators import CALIBRATORS, Temperature
from calibrant.comparison import compare, select_calibrator

TAKING = [name for name, row in CALIBRATORS.items() if row.calibrator.takes_weights]
REFUSING = [name for name in CALIBRATORS if name not in TAKING]
OF_CLAIMS = [name for name in TAKING if CALIBRATORS[name].calibrator.takes_claims]


def _fitted(name, predictions):
    return quiet_fit(CALIBRATORS[name].calibrator(), predictions)


def _example(n=300):
    return tagged(n=n, seed=3)


def _claims(n=300):
    rng = np.random.default_rng(4)
    c = rng.uniform(0.02, 0.98, n)
    labels = rng.choice(list("abc"), n)
    return Claims.from_top_label(labels, c, correct=rng.random(n) < c**2)


def _counts(n):
    return np.random.default_rng(5).integers(0, 4, n)


def _assert_alike(name, one, other, p):
    """The calibrators agree on examples; learned values of interpolations may have other nodes."""
    mine, theirs = (fitted.transform(p) for fitted in (one, other))
    assert one.fell_back_ == other.fell_back_
    if isinstance(p, Claims):
        assert np.allclose(mine.confidence, theirs.confidence, atol=2e-5), name
    else:
        assert np.allclose(mine.probabilities(), theirs.probabilities(), atol=2e-5), name


@pytest.mark.parametrize("name", TAKING)
def test_whole_weights_are_repeated_rows(name):
    p, w = _example(), _counts(300)
    weighted = replace(p, weights=w)
    _assert_alike(name, _fitted(name, weighted), _fitted(name, p[np.repeat(np.arange(300), w)]), p)


@pytest.mark.parametrize("name", OF_CLAIMS)
def test_whole_weights_are_repeated_claims(name):
    claims, w = _claims(), _counts(300) + 1
    weighted = replace(claims, weights=w.astype(float))
    again = claims[np.repeat(np.arange(300), w)]
    _assert_alike(name, _fitted(name, weighted), _fitted(name, again), claims)


@pytest.mark.parametrize("name", TAKING)
def test_weights_of_one_are_none(name):
    p = as_probabilities(_example())
    _assert_alike(name, _fitted(name, replace(p, weights=np.ones(300))), _fitted(name, p), p)


@pytest.mark.parametrize("name", TAKING)
def test_weight_zero_removes_the_row(name):
    p, kept = _example(), _counts(300) > 1
    _assert_alike(name, _fitted(name, replace(p, weights=kept)), _fitted(name, p[kept]), p)


@pytest.mark.parametrize("name", REFUSING)
def test_others_refuse_in_one_line(name):
    with pytest.raises(InputError, match="takes no sample weights") as caught:
        _fitted(name, replace(_example(), weights=np.ones(300)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TAKING)
def test_all_right_and_weighted(name):
    """Bounds of faultless samples count weights too."""
    logits = np.tile([[3.0, 0.0], [0.0, 2.0], [2.5, 0.5]], (10, 1))
    p = Predictions.from_logits(logits, logits.argmax(1), label_names=["O", "B-X"])
    p = replace(p, groups={"position": np.arange(30) % 3})
    w = np.full(30, 4.0)
    again = p[np.repeat(np.arange(30), 4)]
    _assert_alike(name, _fitted(name, replace(p, weights=w)), _fitted(name, again), p)


def test_small_sums_warn():
    with pytest.warns(UserWarning, match="scale them to a mean of 1"):
        Temperature().fit(replace(_example(), weights=np.full(300, 1 / 300)))


def test_a_comparison_counts_by_weight():
    p, w = _example(400), np.random.default_rng(6).uniform(0.2, 3, 400)
    weighted = replace(p, weights=w)
    names = ["temperature", "vector", "isotonic-top-label"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(weighted, weighted, names, bootstrap=100, same_data=True)
        doubled = compare(replace(p, weights=2 * w), weighted, names, bootstrap=100, same_data=True)
    temperature = Temperature().fit(weighted)
    row = next(row for row in found.rows if row.name == "temperature")
    from calibrant.metrics import ece, nll

    after = temperature.transform(weighted)
    assert (row.ece, row.nll) == pytest.approx((ece(after), nll(after)))
    again = next(row for row in doubled.rows if row.name == "temperature")
    assert again.valid_nll == pytest.approx(row.valid_nll)
    assert select_calibrator(weighted, ["temperature"], bootstrap=100).calibrator.name


@pytest.mark.parametrize("name", ["isotonic", "isotonic-top-label", "centred-isotonic"])
def test_small_weights_of_events_do_not_make_isotonic_regression_fall(name):
    """What few rows support, 1 / (n + 2), is of the outer blocks, and no more than the next."""
    scores = [0.6, 0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 0.9]
    weights = [1000, 0.001, 1000, 0.01, 1e5, 2, 1, 5]
    p = Predictions.from_probabilities(scores, [0, 1] * 4, weights=weights)
    learned = _fitted(name, p).values_[0]
    assert (np.diff(learned) >= 0).all()
    assert learned[0] == pytest.approx(1e-5, rel=0.01)


def test_a_column_called_about_is_not_the_label_of_a_claim():
    rng = np.random.default_rng(0)
    scores, labels = rng.random(60), rng.integers(0, 2, 60)
    mine = {"about": np.repeat(["cats", "dogs"], 30)}
    p = Predictions.from_probabilities(scores, labels)
    claims = Claims.from_top_label(None, scores, correct=labels)
    for examples in (p, claims):
        for name in ("shrunk-platt", "class-temperature"):
            with_ = _fitted(name, replace(examples, groups=mine))
            assert repr(with_) == repr(_fitted(name, examples))
