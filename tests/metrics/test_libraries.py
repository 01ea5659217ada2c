"""Agreement with independent libraries where the conventions agree, and how they differ."""

import metric_loops as loops
import numpy as np
import pytest
import relplot
import torch
from netcal.metrics import ACE, ECE, MCE
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, log_loss, roc_auc_score
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_accuracy,
    multiclass_calibration_error,
)

from calibrant import Predictions
from calibrant import metrics as ours
from calibrant.metrics import Bins, accumulate

KINDS = ["logits64", "probabilities32", "two", "ties"]


def arrays(p):
    """Probabilities as float64, labels, confidence and correctness."""
    probabilities = np.asarray(p.probabilities(), np.float64)
    c = ours.confidences(p)
    return probabilities, p.labels, c.confidence, c.correct


@pytest.mark.parametrize("kind", ["logits64", "probabilities32", "two"])
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_torchmetrics_away_from_the_edges(kind, bins):
    p = loops.sample(kind)
    probabilities, labels = (torch.tensor(a) for a in arrays(p)[:2])
    for norm, metric in {"l1": ours.ece, "max": ours.mce}.items():
        theirs = multiclass_calibration_error(probabilities, labels, p.classes, bins, norm)
        assert metric(p, bins) == pytest.approx(float(theirs), abs=1e-6)
    accuracy = multiclass_accuracy(probabilities, labels, p.classes, average="micro")
    assert ours.accuracy(p) == pytest.approx(float(accuracy), abs=1e-6)


def test_torchmetrics_hides_certainty_in_a_bin_of_its_own():
    # One bin of everything: accuracy 1/2 and mean confidence 3/4, so the error is 1/4. The bin
    # that torchmetrics adds for p = 1.0 keeps the two apart: (|1 − 0.5| + |0 − 1|) / 2 = 3/4.
    p = Predictions.from_probabilities([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    theirs = multiclass_calibration_error(torch.tensor(p.scores), torch.tensor(p.labels), 2, 1)
    assert ours.ece(p, 1) == 0.25
    assert float(theirs) == 0.75
    # Without the certain ones both libraries agree, and the bin is the only difference.
    saturated = loops.sample("saturated")
    probabilities, labels, confidence, _ = arrays(saturated)
    assert (confidence == 1).sum() > 10
    theirs = multiclass_calibration_error(
        torch.tensor(probabilities), torch.tensor(labels), 4, 10, "max"
    )
    apart = [ours.mce(saturated[confidence == 1], 10), ours.mce(saturated[confidence < 1], 10)]
    assert float(theirs) == pytest.approx(max(apart), abs=1e-6)
    assert float(theirs) != pytest.approx(ours.mce(saturated, 10), abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_torchmetrics_is_left_closed(kind):
    p = loops.sample(kind)
    probabilities, labels, confidence, _ = arrays(p)
    keep = confidence < 1
    q = Predictions.from_probabilities(probabilities[keep], labels[keep])
    theirs = multiclass_calibration_error(
        torch.tensor(q.scores, dtype=torch.float64), torch.tensor(q.labels), p.classes, 8
    )
    assert ours.ece(q, 8, closed="left") == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, "saturated"])
@pytest.mark.parametrize("bins", [4, 8, 15])
def test_netcal_with_left_closed_bins(kind, bins):
    p = loops.sample(kind)
    probabilities, labels, *_ = arrays(p)
    q = Predictions.from_probabilities(probabilities, labels)
    scores = probabilities if p.classes > 2 else ours.confidences(p).confidence
    truth = labels if p.classes > 2 else ours.confidences(p).correct.astype(int)
    left = Bins(bins, closed="left")
    assert ours.ece(q, left) == pytest.approx(ECE(bins).measure(scores, truth), abs=1e-9)
    assert ours.mce(q, left) == pytest.approx(MCE(bins).measure(scores, truth), abs=1e-9)


def test_netcals_average_calibration_error_weighs_bins_alike():
    p = loops.sample("logits64")
    state = accumulate(p, 15)
    used = state.top_count > 0
    gaps = np.abs(state.top_correct - state.top_confidence)[used] / state.top_count[used]
    assert ACE(15).measure(*arrays(p)[:2]) == pytest.approx(gaps.mean())


def test_netcal_equal_mass_without_ties():
    """The same bins where n is a multiple of the number of bins: runs of 10."""
    p = loops.sample("logits64", n=150)
    scores, labels = arrays(p)[:2]
    theirs = ECE(15, equal_intervals=False).measure(scores, labels)
    assert ours.adaptive_ece(p, 15) == pytest.approx(theirs, abs=1e-9)


def test_binary_columns_mean_something_else_elsewhere():
    """One column is P(y = 1) in netcal and torchmetrics: classwise here, not top-label."""
    rng = np.random.default_rng(0)
    one = rng.beta(2, 1, 200)
    labels = (rng.random(200) < one / 2).astype(int)
    p = Predictions.from_probabilities(one, labels)
    theirs = ECE(10).measure(one, labels)
    assert float(binary_calibration_error(torch.tensor(one), torch.tensor(labels), 10)) == (
        pytest.approx(theirs)
    )
    assert ours.classwise_ece(p, 10) == pytest.approx(theirs)
    assert abs(ours.ece(p, 10) - theirs) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_scores(kind):
    p = loops.sample(kind)
    probabilities, labels, confidence, correct = arrays(p)
    classes = range(p.classes)
    positive = probabilities / probabilities.sum(1, keepdims=True)
    if not (positive[np.arange(len(p)), labels] == 0).any():  # log_loss clips p = 0.
        assert ours.nll(p) == pytest.approx(log_loss(labels, positive, labels=classes), rel=1e-6)
    assert ours.accuracy(p) == accuracy_score(labels, probabilities.argmax(1))
    assert ours.auroc(p) == pytest.approx(roc_auc_score(correct, confidence))
    theirs = brier_score_loss(labels, positive, labels=classes, scale_by_half=False)
    assert ours.brier(p) == pytest.approx(theirs, rel=1e-6)
    half = brier_score_loss(labels, positive, labels=classes, scale_by_half=True)
    assert ours.brier(p) == pytest.approx(2 * half, rel=1e-6)


@pytest.mark.parametrize("bins", [4, 8, 15])
def test_scikit_learn_calibration_curve_is_right_closed(bins):
    p = loops.sample("ties")
    state = accumulate(p, bins)
    _, _, confidence, correct = arrays(p)
    used = state.top_count > 0
    true, predicted = calibration_curve(correct, confidence, n_bins=bins)
    np.testing.assert_allclose(true, state.top_correct[used] / state.top_count[used])
    np.testing.assert_allclose(predicted, state.top_confidence[used] / state.top_count[used])


@pytest.mark.parametrize("gamma", [0.3, 1.0, 1.3, 3.0])
@pytest.mark.parametrize("n", [1, 50, 2000])
def test_relplot_smooth_ece(n, gamma):
    """relplot searches the bandwidth to 2⁻¹⁰ and reflects once, which is enough below 0.15."""
    rng = np.random.default_rng(n)
    confidence = 1 - 0.7 * rng.beta(1, 6, n)
    correct = rng.random(n) < confidence**gamma
    theirs = relplot.smECE(confidence, correct.astype(float))
    assert ours.smooth_ece(ours.Confidences(confidence, correct)) == pytest.approx(theirs, abs=2e-3)


def test_relplot_with_a_wide_kernel():
    """Noise labels: the bandwidth is 0.2, where relplot's kernel is cut off at 2.5 σ."""
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(2000), rng.random(2000) < 0.5
    theirs = relplot.smECE(confidence, correct.astype(float))
    value = ours.smooth_ece(ours.Confidences(confidence, correct))
    assert value > 0.15
    assert value == pytest.approx(theirs, abs=6e-3)


def test_relplot_counts_certainty_half():
    """Its mirror image of an end is the end itself, once; the definition reflects it onto itself.

    So confidence 1.0 weighs half of what it does a hair below, which the smooth ECE, a continuous
    function of the confidences, must not do.
    """
    confidence = np.array([1.0] * 5 + [0.6] * 5)
    correct = np.array([False] * 5 + [True] * 3 + [False] * 2)
    below = np.minimum(confidence, 1 - 1e-3)
    value = {
        (who, where): measure(c)
        for where, c in {"at": confidence, "below": below}.items()
        for who, measure in {
            "relplot": lambda c: relplot.smECE(c, correct.astype(float)),
            "ours": lambda c: ours.smooth_ece(ours.Confidences(c, correct)),
        }.items()
    }
    assert value["ours", "at"] == pytest.approx(0.5, abs=1e-4)  # Half are sure, and wrong.
    assert value["ours", "below"] == pytest.approx(0.5, abs=2e-3)
    assert value["relplot", "below"] == pytest.approx(0.5, abs=4e-3)
    assert value["relplot", "at"] == pytest.approx(1 / 3, abs=4e-3)


def test_scikit_learn_token_f1():
    names = ("O", "B-X", "I-X", "B-Y")
    p = loops.sample("logits64")
    tagged = Predictions.from_logits(p.scores, p.labels, label_names=names)
    theirs = f1_score(p.labels, p.scores.argmax(1), labels=[1, 2, 3], average="micro")
    assert ours.token_f1(tagged) == pytest.approx(theirs)


def test_published_ways_to_integrate_the_risk():
    """Without ties, torch-uncertainty's and fd-shifts' trapezoids follow from the same curve."""
    p = loops.sample("logits64")
    confidence, correct = ours.confidences(p).confidence, ours.confidences(p).correct
    n = len(p)
    wrong = ~correct[np.argsort(-confidence)]
    risks = np.cumsum(wrong) / np.arange(1, n + 1)
    assert ours.aurc(p) == pytest.approx(risks.mean())  # Geifman et al. 2019.
    curve = ours.risk_coverage_curve(p)
    np.testing.assert_allclose(curve.risk, risks)
    trapezoids = np.sum((risks[1:] + risks[:-1]) / (2 * n)) / (1 - 1 / n)
    expected = (n * ours.aurc(p) - (risks[0] + risks[-1]) / 2) / (n - 1)
    assert trapezoids == pytest.approx(expected)
    generalised = np.append(0, np.cumsum(wrong)) / n  # Traub et al. 2024.
    assert ours.augrc(p) == pytest.approx(np.sum(generalised[1:] + generalised[:-1]) / (2 * n))
