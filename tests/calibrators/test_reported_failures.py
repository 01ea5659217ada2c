"""Failures that users of other implementations report; none may happen here."""

import tracemalloc

import numpy as np
import pytest
from calibrator_samples import as_probabilities, gradient, overconfident, quiet_fit

from calibrant import Predictions
from calibrant.calibrators import (
    CALIBRATORS,
    Beta,
    CalibrationWarning,
    Isotonic,
    Platt,
    Temperature,
    Vector,
)
from calibrant.metrics import accuracy

NER = ("type-temperature", "position-temperature")
general = pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in NER])


def saturated(n, classes, gap, wrong, seed=0):
    """Pixels of a segmentation network: almost all logits far apart, a few of them wrong."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    predicted = np.where(rng.random(n) < wrong, rng.integers(0, classes, n), labels)
    logits = rng.normal(size=(n, classes)).astype(np.float32)
    logits[np.arange(n), predicted] += gap * rng.random(n, dtype=np.float32)
    return Predictions.from_logits(logits, labels)


@pytest.mark.parametrize(("n", "classes"), [(2_000_000, 2), (300_000, 10)])
@pytest.mark.parametrize("gap", [30.0, 1000.0])
def test_segmentation_sized_data_do_not_end_at_a_million(n, classes, gap):
    # L-BFGS from T = 1.5 with a fixed step ends at T = 1e6, or below 0, on data like these.
    p = saturated(n, classes, gap, wrong=0.02)
    fitted = Temperature().fit(p)
    assert 0.5 < fitted.temperature_ < gap
    assert abs(gradient(p.scores, p.labels, fitted.temperature_)) < 1e-8
    assert fitted.fitted_on_["passes"] <= 4
    assert fitted.fitted_on_["nll_after"] < fitted.fitted_on_["nll_before"]


def test_memory_does_not_grow_with_the_data():
    peaks = []
    for n in (300_000, 900_000):
        p = saturated(n, 4, 30.0, wrong=0.02)
        Temperature().fit(p)  # Compiles where numba is there.
        tracemalloc.start()
        Temperature().fit(p)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 0.3 * p.scores.nbytes
    assert peaks[1] < 1.5 * peaks[0] + 1e6


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 1e2, 1e4])
def test_temperature_is_positive_at_every_size_of_logits(scale):
    p = overconfident(n=500, scale=scale)
    fitted = Temperature().fit(p)
    assert fitted.temperature_ == pytest.approx(scale, rel=0.2)
    assert fitted.temperature_ > 0


def test_anticorrelated_scores_do_not_make_it_negative():
    p = overconfident(n=500)
    with pytest.warns(CalibrationWarning, match="or the opposite"):
        fitted = Temperature().fit(p.with_scores(-p.scores, "logits"))
    assert fitted.temperature_ > 0


@general
def test_float32_is_not_ignored(name):
    """One library returns the input unchanged when it is float32."""
    wide = overconfident(n=400, classes=3)
    narrow = wide.with_scores(wide.scores.astype(np.float32), "logits")
    a, b = (quiet_fit(CALIBRATORS[name].calibrator(), p) for p in (wide, narrow))
    assert a.fell_back_ == b.fell_back_
    got, expected = b.transform(narrow), a.transform(wide)
    assert got.scores.dtype == np.float32
    np.testing.assert_allclose(got.probabilities(), expected.probabilities(), atol=2e-3)
    if name != "identity":
        assert not np.allclose(got.probabilities(), narrow.probabilities(), atol=1e-3)


@general
@pytest.mark.parametrize("absent", [0, 3])
def test_class_missing_from_the_labels(name, absent):
    p = overconfident(n=300, classes=4)
    kept = p[p.labels != absent]
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), kept)
    result = fitted.transform(p)
    assert result.classes == 4
    assert np.isfinite(result.scores).all()
    np.testing.assert_allclose(result.probabilities().sum(axis=1), 1, atol=1e-9)


@general
@pytest.mark.parametrize("label", [0, 1])
def test_a_single_example(name, label):
    p = Predictions.from_logits([[2.0, 0.5, -1.0]], [label])
    for q in (p, as_probabilities(p)):
        fitted = quiet_fit(CALIBRATORS[name].calibrator(), q)
        result = fitted.transform(q).probabilities()
        assert np.isfinite(result).all()
        assert result.sum() == pytest.approx(1)


@general
def test_all_right_and_all_wrong(name):
    logits = overconfident(n=100, classes=3).scores
    top = logits.argmax(axis=1)
    for labels in (top, (top + 1) % 3):
        p = Predictions.from_logits(logits, labels)
        fitted = quiet_fit(CALIBRATORS[name].calibrator(), p)
        assert np.isfinite(fitted.transform(p).probabilities()).all()
        assert fitted.fitted_on_["nll_after"] <= fitted.fitted_on_["nll_before"]


@general
@pytest.mark.parametrize("size", [1e4, 6e4])
def test_huge_logits_in_half_precision(name, size):
    rng = np.random.default_rng(0)
    logits = (rng.uniform(-1, 1, size=(200, 3)) * size).astype(np.float16)
    labels = np.where(rng.random(200) < 0.8, logits.argmax(axis=1), rng.integers(0, 3, 200))
    p = Predictions.from_logits(logits, labels)
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), p)
    assert np.isfinite(fitted.transform(p).probabilities()).all()


@general
def test_saturated_probabilities(name):
    """Softmax outputs saved in float32 hold exact zeros and ones."""
    p = saturated(2000, 3, 500.0, wrong=0.05)
    q = as_probabilities(p)
    assert (q.scores == 0).any()
    assert (q.scores == 1).any()
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), q)
    result = fitted.transform(q)
    assert np.isfinite(result.scores).all()
    assert any("probability 0" in warning for warning in fitted.fitted_on_["warnings"])


@general
def test_tied_scores_get_one_value(name):
    p = Predictions.from_probabilities(
        [[0.7, 0.2, 0.1]] * 40 + [[0.4, 0.35, 0.25]] * 40, ([0, 0, 0, 1] * 10) + [0, 1, 2, 0] * 10
    )
    result = quiet_fit(CALIBRATORS[name].calibrator(), p).transform(p).scores
    assert (result[:40] == result[0]).all()
    assert (result[40:] == result[40]).all()


def test_accuracy_survives_where_it_is_promised():
    p = saturated(5000, 4, 30.0, wrong=0.3)
    for row in CALIBRATORS.values():
        if row.calibrator.keeps_argmax and row.calibrator.name not in NER:
            assert accuracy(quiet_fit(row.calibrator(), p).transform(p)) == accuracy(p)


@pytest.mark.parametrize("calibrator", [Platt(), Beta(), Isotonic(), Vector()])
def test_separable_classes_stay_finite(calibrator):
    logits = np.repeat([[4.0, -4.0], [-4.0, 4.0]], 50, axis=0)
    p = Predictions.from_logits(logits, np.repeat([0, 1], 50))
    fitted = quiet_fit(calibrator, p)
    for value in fitted.learned().values():
        assert np.isfinite(value).all()


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e30, 1e90])
def test_scores_of_any_size_have_the_same_fit(scale):
    p = overconfident(n=400, classes=4)
    expected = Temperature().fit(p)
    scaled = Temperature().fit(Predictions.from_logits(scale * p.scores, p.labels))
    assert scaled.temperature_ == pytest.approx(scale * expected.temperature_, rel=1e-7)
    assert scaled.fitted_on_["warnings"] == []
    assert scaled.fitted_on_["passes"] < 30


def test_one_enormous_mistake_warns():
    p = overconfident(n=400, classes=4)
    scores = np.vstack([p.scores, [[1e7, 0, 0, 0]]])
    with pytest.warns(CalibrationWarning, match="say nothing about the labels, or the opposite"):
        fitted = Temperature().fit(Predictions.from_logits(scores, np.append(p.labels, 1)))
    assert np.isfinite(fitted.temperature_)
