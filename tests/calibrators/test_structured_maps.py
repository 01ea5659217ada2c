"""Structured vector and matrix scaling: the published objective, its optimum, and probmetrics."""

import numpy as np
import pytest
import torch
from calibrator_samples import overconfident, quiet_fit
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calibrant import InputError, Predictions, nll
from calibrant.calibrators import (
    Dirichlet,
    Matrix,
    StructuredMatrix,
    StructuredVector,
    Temperature,
    Vector,
)
from calibrant.calibrators import curvature as curvature_module
from calibrant.calibrators import linear as linear_module
from calibrant.calibrators.linear import Penalty, fit_linear

both = pytest.mark.parametrize("calibrator", [StructuredVector, StructuredMatrix])


def biased(n, classes, seed=0):
    """Predictions whose classes are wrong in different directions."""
    p = overconfident(n=n, classes=classes, seed=seed, scale=2.0)
    rng = np.random.default_rng(seed)
    mixed = p.scores @ (np.eye(classes) + 0.2 * rng.normal(size=(classes, classes)))
    return Predictions.from_logits(mixed + rng.normal(size=classes), p.labels)


def published(fitted, p, weights, intercepts):
    """The objective of the paper, written out."""
    n, k = p.scores.shape
    weights = np.diag(weights) if weights.ndim == 1 else weights
    x = log_softmax(p.scores / fitted.temperature_, axis=1)
    z = log_softmax(x @ weights.T + intercepts, axis=1)
    v, off = np.diag(weights) - 1, weights - np.diag(np.diag(weights))
    penalty = k / n * (intercepts**2).sum() + k / n * (v**2).sum()
    return -z[np.arange(n), p.labels].mean() + penalty + k * (k - 1) / n * (off**2).sum()


@both
@pytest.mark.filterwarnings("ignore")  # Its imports warn of what torch will drop.
@pytest.mark.parametrize(("n", "classes"), [(60, 2), (400, 3), (3000, 6)])
def test_objective_is_no_higher_than_that_of_probmetrics(calibrator, n, classes):
    theirs = pytest.importorskip("probmetrics.calibrators")
    p = biased(n, classes)
    fitted = quiet_fit(calibrator(), p)
    is_vector = calibrator is StructuredVector
    other = (theirs.SVSCalibrator if is_vector else theirs.SMSCalibrator)()
    other.fit(p.probabilities().astype(np.float32), p.labels)
    if is_vector:
        weights, intercepts = other.v_, other.b_
    else:
        weights, intercepts = other.W_[:, :-1], other.W_[:, -1]
    mine = published(fitted, p, fitted.weights_, fitted.intercepts_)
    assert mine <= published(fitted, p, weights, intercepts) + 1e-9
    np.testing.assert_allclose(
        fitted.transform(p).probabilities(),
        other.predict_proba(p.probabilities().astype(np.float32)),
        atol=0.01 + 1 / n,  # It mixes 1 / (n + 1) of uniform in after its temperature.
    )


@both
def test_optimum_is_that_of_scipy(calibrator):
    p = biased(300, 4)
    fitted = quiet_fit(calibrator(), p)
    shape = fitted.weights_.shape
    size = fitted.weights_.size

    def value(theta):
        return published(fitted, p, theta[:size].reshape(shape), theta[size:])

    start = np.append(np.ones(4) if len(shape) == 1 else np.eye(4), np.zeros(4))
    found = minimize(value, start, method="BFGS", options={"gtol": 1e-8})
    mine = value(np.append(fitted.weights_, fitted.intercepts_))
    assert mine == pytest.approx(found.fun, abs=1e-9)
    np.testing.assert_allclose(np.append(fitted.weights_, fitted.intercepts_), found.x, atol=1e-4)


@both
def test_never_worse_than_temperature_and_nearer_to_it_with_few_examples(calibrator):
    distances = []
    for n in (40, 400, 40000):
        p = biased(n, 5)
        fitted = quiet_fit(calibrator(), p)
        assert nll(fitted.transform(p)) <= nll(Temperature().fit(p).transform(p)) + 1e-12
        identity = np.ones(5) if fitted.weights_.ndim == 1 else np.eye(5)
        distances.append(np.abs(fitted.weights_ - identity).max())
    assert distances[0] < distances[1] < distances[2]


@pytest.mark.parametrize("option", ["intercept", "diagonal", "rho", "tau"])
def test_negative_strengths_are_refused(option):
    with pytest.raises(InputError, match=f"expects {option} ≥ 0, got -1"):
        StructuredVector(**{option: -1}).fit(overconfident(n=20))


def test_many_classes_are_refused():
    p = overconfident(n=20, classes=6)
    with pytest.raises(InputError, match="learns K² \\+ K numbers, 42 for 6 classes"):
        StructuredMatrix(most_classes=5).fit(p)


linear_maps = pytest.mark.parametrize(
    "calibrator", [Vector, Matrix, Dirichlet, StructuredVector, StructuredMatrix]
)


@linear_maps
def test_classes_one_by_one_lead_to_the_optimum_of_the_whole_curvature(calibrator, monkeypatch):
    p = biased(500, 5)
    expected = quiet_fit(calibrator(), p)
    monkeypatch.setattr(curvature_module, "FEW_CLASSES", 2)
    monkeypatch.setattr(linear_module, "FEW_CLASSES", 2)
    got = quiet_fit(calibrator(), p)
    assert not got.fitted_on_["warnings"]
    np.testing.assert_allclose(got.weights_, expected.weights_, atol=1e-3)
    assert got.fitted_on_["nll_after"] == pytest.approx(expected.fitted_on_["nll_after"], abs=1e-6)


@linear_maps
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_data_are_fitted_in_float32_as_well_as_in_float64(calibrator, dtype, monkeypatch):
    p = biased(3000, 40)
    p = Predictions.from_logits(p.scores.astype(dtype), p.labels)
    expected = quiet_fit(calibrator(), p)
    monkeypatch.setattr(linear_module, "_LARGE", 1)
    got = quiet_fit(calibrator(), p)
    assert not got.fitted_on_["warnings"]
    assert not got.fell_back_
    assert got.fitted_on_["nll_after"] == pytest.approx(nll(got.transform(p)), abs=2e-7)
    if calibrator in (StructuredVector, StructuredMatrix):
        mine, best = (published(f, p, f.weights_, f.intercepts_) for f in (got, expected))
        assert best - 1e-9 <= mine <= best + 5e-8


@both
@pytest.mark.parametrize("classes", [3, 5, 7, 11])
def test_rounding_of_large_data_is_no_reason_to_fall_back(calibrator, classes, monkeypatch):
    monkeypatch.setattr(linear_module, "_LARGE", 1)
    labels = np.arange(3000 * classes) % classes
    p = Predictions.from_logits(np.zeros((len(labels), classes), np.float32), labels)
    fitted = quiet_fit(calibrator(), p)
    assert not fitted.fell_back_
    assert not fitted.fitted_on_["warnings"]
    np.testing.assert_allclose(fitted.transform(p[:1]).probabilities(), 1 / classes, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2048, 2049, 29_126, 29_127, 29_128, 79_999, 80_000, 80_001])
@pytest.mark.parametrize("shape", [1, 2])
def test_chunks_and_stages_lead_to_the_optimum(n, shape):
    """Sizes around the sample for the curvature, the chunks, and the first stage's sample."""
    p = biased(n, 3)
    centre = np.ones(3) if shape == 1 else np.eye(3)
    penalty = Penalty(centre, 0.01 * np.ones_like(centre), 0.01)
    found = fit_linear(p.scores, p, penalty)
    matrix = np.diag(found.weights) if shape == 1 else found.weights
    residual = softmax(p.scores @ matrix.T + found.intercepts, axis=1)
    assert found.nll == pytest.approx(-np.log(residual[np.arange(n), p.labels]).mean(), rel=1e-9)
    residual[np.arange(n), p.labels] -= 1
    slope = residual.T @ p.scores / n
    _, w_pull, b_pull = penalty(found.weights, found.intercepts)
    np.testing.assert_allclose((np.diag(slope) if shape == 1 else slope) + w_pull, 0, atol=2e-6)
    np.testing.assert_allclose(residual.mean(axis=0) + b_pull, 0, atol=2e-6)


def test_many_classes_find_the_matrix_in_few_passes(monkeypatch):
    """The diagonal comes first, and q_k and the own moments of a class from all rows."""
    found, search = [], linear_module.minimize

    def spy(*arguments, **options):
        found.append(search(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(linear_module, "minimize", spy)
    p = biased(3000, 40)
    fitted = quiet_fit(StructuredMatrix(), p)
    diagonal, matrix = found
    assert diagonal.x.size == 80
    assert matrix.evaluations <= 8
    assert np.abs(matrix.gradient).max() < 1e-6
    # All rows of W changed alike change no probability, so the best ones are pulled nowhere.
    pull = np.where(np.eye(40, dtype=bool), 1, 39)
    np.testing.assert_allclose((pull * (fitted.weights_ - np.eye(40))).sum(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("classes", [5, 40])
def test_the_penalty_does_not_see_a_change_that_no_probability_shows(classes):
    rng = np.random.default_rng(0)
    pull = rng.random((classes, classes))
    penalty = Penalty(np.eye(classes), pull, 0.3)
    weights, intercepts = rng.normal(size=(classes, classes)), rng.normal(size=classes)
    moved = weights + rng.normal(size=classes), intercepts + 1.7
    for got, expected in zip(penalty(*moved), penalty(weights, intercepts), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-9)
    best, offset = penalty.without_common_change(weights, intercepts)
    value = (pull * (best - np.eye(classes)) ** 2).sum() / 2 + 0.15 * (offset**2).sum()
    assert penalty(weights, intercepts)[0] == pytest.approx(value)
    for step in (-1e-3, 1e-3):
        assert (pull * (best + step - np.eye(classes)) ** 2).sum() / 2 > value - 0.15 * (
            offset**2
        ).sum()


@both
def test_gradient_vanishes_by_autograd(calibrator):
    p = biased(700, 4)
    fitted = quiet_fit(calibrator(), p)
    x = torch.log_softmax(torch.tensor(p.scores / fitted.temperature_), 1)
    w = torch.tensor(fitted.weights_, requires_grad=True)
    b = torch.tensor(fitted.intercepts_, requires_grad=True)
    matrix = torch.diag(w) if w.ndim == 1 else w
    off = matrix - torch.diag(matrix.diagonal())
    loss = torch.nn.functional.cross_entropy(x @ matrix.T + b, torch.tensor(p.labels))
    penalty = 4 / 700 * ((b**2).sum() + ((matrix.diagonal() - 1) ** 2).sum())
    (loss + penalty + 12 / 700 * (off**2).sum()).backward()
    assert w.grad.abs().max() < 2e-6
    assert b.grad.abs().max() < 2e-6
