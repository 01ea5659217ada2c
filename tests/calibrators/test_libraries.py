"""Agreement with scikit-learn, netcal and probmetrics where they have the calibrator."""

import numpy as np
import pytest
import torch
from calibrator_samples import as_probabilities, overconfident, quiet_fit
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from calibrant import Predictions
from calibrant.calibrators import (
    Beta,
    EnsembleTemperature,
    HistogramBinning,
    Isotonic,
    Platt,
    Temperature,
    Vector,
)
from calibrant.calibrators.histogram import _Histogram
from calibrant.calibrators.spline import _SplineCurve
from calibrant.calibrators.ties import tied_runs
from calibrant.metrics import nll

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Theirs.
]
class_counts = pytest.mark.parametrize("classes", [2, 10, 100, 1000])


def examples(classes, n=None, scale=2.0):
    return overconfident(n=n or max(1000, 2 * classes), classes=classes, scale=scale)


def loss(p, scores, kind="probabilities"):
    return nll(p.with_scores(scores, kind))


# scikit-learn


@class_counts
def test_temperature_and_scikit_learn(classes):
    theirs = pytest.importorskip("sklearn.calibration")._TemperatureScaling()
    p = examples(classes)
    ours = Temperature().fit(p)
    theirs.fit(p.scores, p.labels)
    assert ours.temperature_ == pytest.approx(1 / theirs.beta_, rel=1e-4)
    assert ours.fitted_on_["nll_after"] <= loss(p, p.scores * theirs.beta_, "logits") + 1e-12


def lowest_of_ties(scores):
    """Return the scores, with the lowest of each run of near ties in place of all of it."""
    order = np.argsort(scores)
    first = tied_runs(scores[order])
    result = np.empty_like(scores)
    result[order] = np.repeat(scores[order][first], np.diff(np.append(first, len(scores))))
    return result


@class_counts
def test_isotonic_and_scikit_learn(classes):
    p = as_probabilities(examples(classes, n=1000))
    new = as_probabilities(overconfident(n=300, classes=classes, scale=2.0, seed=1))
    ours = Isotonic(floor=0.0)
    quiet_fit(ours, p)
    ours.fell_back_ = False
    columns = []
    for k in range(classes):
        theirs = IsotonicRegression(out_of_bounds="clip")
        theirs.fit(lowest_of_ties(p.scores[:, k]), p.labels == k)
        columns.append(theirs.predict(new.scores[:, k]))
    expected = np.stack(columns, axis=1)
    if classes == 2:
        expected[:, 0] = 1 - expected[:, 1]
    total = expected.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, expected / np.where(total > 0, total, 1), 1 / classes)
    # Only 1000 × 1000 scores have such ties, whose lines start at the highest of them.
    most = 1e-6 if classes == 1000 else 1e-9
    np.testing.assert_allclose(ours.transform(new).scores, expected, atol=most)


def test_isotonic_on_ties_and_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.random(500).round(1)
    p = Predictions.from_probabilities(x, rng.random(500) < x**2)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(x, p.labels)
    np.testing.assert_allclose(Isotonic(0.0).fit(p).transform(p).scores[:, 1], theirs.predict(x))


def test_platt_and_scikit_learn():
    p = examples(2)
    score = p.scores[:, 1] - p.scores[:, 0]
    theirs = _SigmoidCalibration().fit(score, p.labels)
    got = Platt().fit(p).transform(p).scores[:, 1]
    np.testing.assert_allclose(got, theirs.predict(score), atol=1e-5)


def test_platt_against_the_rest_and_scikit_learn():
    p = examples(10)
    q = p.probabilities()
    odds = np.log(q) - np.log1p(-q)
    columns = [_SigmoidCalibration().fit(odds[:, k], p.labels == k) for k in range(10)]
    expected = np.stack([c.predict(odds[:, k]) for k, c in enumerate(columns)], axis=1)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(Platt().fit(p).transform(p).scores, expected, atol=1e-5)


# netcal


@pytest.fixture(scope="module")
def netcal():
    pytest.importorskip("netcal")
    import netcal.binning
    import netcal.scaling

    return netcal


@class_counts
def test_temperature_and_netcal(netcal, classes):
    p = as_probabilities(examples(classes, n=1000))
    given = p.scores if classes > 2 else p.scores[:, 1]
    theirs = netcal.scaling.TemperatureScaling().fit(given, p.labels).transform(given)
    if classes == 2:
        theirs = np.stack([1 - theirs, theirs], axis=1)
    ours = Temperature().fit(p).transform(p)
    assert nll(ours) <= loss(p, theirs / theirs.sum(axis=1, keepdims=True)) + 1e-9
    np.testing.assert_allclose(ours.scores, theirs, atol=1e-3)


def test_beta_and_netcal(netcal):
    p = as_probabilities(examples(2))
    theirs = netcal.scaling.BetaCalibration().fit(p.scores[:, 1], p.labels)
    ours = Beta().fit(p).transform(p)
    expected = theirs.transform(p.scores[:, 1])
    np.testing.assert_allclose(ours.scores[:, 1], expected, atol=1e-3)
    assert nll(ours) <= loss(p, np.stack([1 - expected, expected], axis=1)) + 1e-6


def test_isotonic_and_netcal(netcal):
    p = as_probabilities(examples(10))
    theirs = netcal.binning.IsotonicRegression().fit(p.scores, p.labels).transform(p.scores)
    np.testing.assert_allclose(Isotonic(0.0).fit(p).transform(p).scores, theirs, atol=1e-9)


def test_equal_width_histogram_and_netcal(netcal):
    p = as_probabilities(examples(2))
    x = p.scores[:, 1]
    theirs = netcal.binning.HistogramBinning(bins=10).fit(x, p.labels).transform(x)
    ours = HistogramBinning(bins=10, equal="width", floor=0.0)
    quiet_fit(ours, p)
    ours.fell_back_ = False
    np.testing.assert_allclose(ours.transform(p).scores[:, 1], theirs, atol=1e-9)


# probmetrics


@pytest.fixture(scope="module")
def probmetrics():
    pytest.importorskip("probmetrics")
    from probmetrics import calibrators, distributions

    return calibrators, distributions


@class_counts
def test_temperature_and_probmetrics(probmetrics, classes):
    calibrators, distributions = probmetrics
    p = examples(classes)
    theirs = calibrators.TemperatureScalingCalibrator(opt="bisection")
    logits = distributions.CategoricalLogits(torch.tensor(p.scores))
    theirs.fit_torch(logits, torch.tensor(p.labels))
    ours = Temperature().fit(p)
    assert 1 / ours.temperature_ == pytest.approx(float(theirs.invtemp_), rel=2e-3)
    there = loss(p, p.scores * float(theirs.invtemp_), "logits")
    assert ours.fitted_on_["nll_after"] <= there + 1e-12


def test_ensemble_and_probmetrics(probmetrics):
    calibrators, _ = probmetrics
    p = as_probabilities(examples(10))
    theirs = calibrators.temperature_scaling.ETSCalibrator(loss="ce").fit(p.scores, p.labels)
    ours = EnsembleTemperature().fit(p).transform(p)
    expected = theirs.predict_proba(p.scores)
    assert nll(ours) <= loss(p, expected) + 1e-9
    np.testing.assert_allclose(ours.scores, expected, atol=1e-3)


def test_vector_and_probmetrics(probmetrics):
    calibrators, distributions = probmetrics
    p = examples(10)
    theirs = calibrators.logistic.VectorScalingCalibrator()
    centred = p.scores - p.scores.mean(axis=1, keepdims=True)
    logits = distributions.CategoricalLogits(torch.tensor(centred))
    theirs.fit_torch(logits, torch.tensor(p.labels))
    there = theirs.predict_proba_torch(logits).get_probs().numpy()
    ours = Vector(shrinkage=0.0).fit(p)
    assert ours.fitted_on_["nll_after"] <= loss(p, there) + 1e-7
    np.testing.assert_allclose(ours.transform(p).probabilities(), there, atol=2e-2)


def test_equal_mass_histogram_and_probmetrics(probmetrics):
    calibrators, _ = probmetrics
    p = as_probabilities(examples(2))
    theirs = calibrators.binning.BinaryHistogramBinningCalibrator(10, "quantile")
    theirs.fit(p.scores, p.labels)
    x = p.scores[:, 1]
    scalar = _Histogram(10, "mass", 0.0)
    learned = {k: v[None] for k, v in scalar.fit(x, p.labels == 1).items()}
    np.testing.assert_allclose(
        scalar.apply(x[:, None], learned)[:, 0], theirs.predict_proba(p.scores)[:, 1], atol=1e-9
    )


def test_spline_and_probmetrics(probmetrics):
    calibrators, _ = probmetrics
    p = as_probabilities(examples(2, n=900))
    theirs = calibrators.splines.CDFSplineCalibrator().fit(p.scores, p.labels)
    x = p.scores[:, 1]
    scalar = _SplineCurve(6, True, 0.0)
    learned = {k: v[None] for k, v in scalar.fit(x, p.labels == 1).items()}
    got = scalar.apply(x[:, None], learned)[:, 0]
    # Quantiles differ by 1/n: theirs run from 0 to 1, ours are the middles of n equal parts.
    expected = np.clip(theirs.predict_proba(p.scores)[:, 1], 0, 1)
    np.testing.assert_allclose(got, expected, atol=0.02)
