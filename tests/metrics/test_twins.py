"""Every metric against the plain loops that follow its definition."""

import metric_loops as loops
import numpy as np
import pytest

from calibrant import metrics

BINNED = ["ece", "mce", "overconfidence_error", "classwise_ece", "debiased_rms_ece"]
SCORES = ["accuracy", "error_rate", "mean_confidence", "nll", "brier"]
SORTED = ["ks_error", "aurc", "e_aurc", "augrc", "auroc"]


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("bins", [1, 5, 15])
@pytest.mark.parametrize("name", BINNED)
def test_binned(predictions, name, bins, closed):
    expected = getattr(loops, name)(predictions, bins, closed)
    assert getattr(metrics, name)(predictions, bins, closed=closed) == pytest.approx(
        expected, abs=1e-6 if predictions.scores.dtype == np.float32 else 1e-12
    )


@pytest.mark.parametrize("name", SCORES)
def test_scores(predictions, name):
    expected = getattr(loops, name)(predictions)
    assert getattr(metrics, name)(predictions) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", SORTED)
def test_sorted(predictions, name):
    expected = getattr(loops, name)(predictions)
    assert getattr(metrics, name)(predictions) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("bins", [1, 7, 15, 1000])
@pytest.mark.parametrize("name", ["adaptive_ece", "adaptive_classwise_ece"])
def test_equal_mass(predictions, name, bins):
    expected = getattr(loops, name)(predictions, bins)
    assert getattr(metrics, name)(predictions, bins) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", ["logits64", "ties", "saturated"])
def test_smooth(name):
    p = loops.sample(name, n=25)
    assert metrics.smooth_ece(p) == pytest.approx(loops.smooth_ece(p), abs=3e-4)


@pytest.mark.parametrize("coverage", [0.01, 0.3, 0.5, 0.999, 1.0])
def test_risk_at_coverage(predictions, coverage):
    expected = loops.risk_at_coverage(predictions, coverage)
    assert metrics.risk_at_coverage(predictions, coverage) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("risk", [0.0, 0.05, 0.2, 1.0])
def test_coverage_at_risk(predictions, risk):
    expected = loops.coverage_at_risk(predictions, risk)
    assert metrics.coverage_at_risk(predictions, risk) == pytest.approx(expected, abs=1e-12)
