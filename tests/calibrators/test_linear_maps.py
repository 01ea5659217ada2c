"""Vector, matrix, Dirichlet and ensemble temperature scaling, and the minimiser under them."""

import numpy as np
import pytest
import torch
from calibrator_samples import overconfident, quiet_fit
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from calibrant import InputError, Predictions
from calibrant.calibrators import Dirichlet, EnsembleTemperature, Matrix, Temperature, Vector
from calibrant.calibrators.curvature import inverse_curvature
from calibrant.calibrators.logistic import logistic_regression
from calibrant.calibrators.minimize import minimize
from calibrant.calibrators.temperature import _mixture_weights


def skewed(n=600, classes=4, seed=0):
    """Overconfident, with classes confused in a known way: W and b are worth learning."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, classes)) * 2
    weights = np.eye(classes) * rng.uniform(0.3, 1.0, classes)
    weights[0, 1] = 0.3
    truth = z @ weights.T + np.linspace(-1, 1, classes)
    labels = (truth + rng.gumbel(size=z.shape)).argmax(axis=1)
    return Predictions.from_logits(2 * z, labels)


# The minimiser


@given(st.integers(0, 2**31), st.integers(1, 8), st.floats(0, 3))
def test_quadratics_are_minimised(seed, size, condition):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    a = q @ np.diag(10 ** rng.uniform(-condition / 2, condition / 2, size)) @ q.T
    target = rng.normal(size=size)

    def bowl(x):
        return float((x - target) @ a @ (x - target) / 2), a @ (x - target)

    found = minimize(bowl, np.zeros(size), tolerance=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.x, target, atol=1e-5)


def test_rosenbrock_valley():
    def valley(x):
        a, b = 1 - x[0], x[1] - x[0] ** 2
        gradient = np.array([-2 * a - 400 * x[0] * b, 200 * b])
        return float(a**2 + 100 * b**2), gradient

    found = minimize(valley, np.array([-1.2, 1.0]))
    np.testing.assert_allclose(found.x, 1, atol=1e-6)
    assert found.evaluations < 100


def test_never_above_the_start_and_stops_on_flat_ground():
    flat = minimize(lambda x: (1.0, np.zeros_like(x)), np.ones(3))
    assert flat.converged
    assert flat.evaluations == 1
    steep = minimize(lambda x: (float(np.exp(-x[0])), -np.exp(-x)), np.zeros(1), most_steps=5)
    assert steep.value < 1


def test_logistic_regression_equals_scipy():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=200) * 5, np.ones(200)], axis=1)
    targets = rng.random(200)
    prior = np.array([1.0, 0.0])

    def loss(theta):
        z = x @ theta
        return np.mean(np.logaddexp(0, z) - targets * z) + 0.05 * ((theta - prior) ** 2).sum()

    expected = scipy_minimize(loss, prior, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(logistic_regression(x, targets, prior, 0.1), expected, atol=1e-6)


# The calibrators


def torch_fit(p, features, weights, penalty):
    """The same objective by automatic differentiation and torch's L-BFGS, in float64."""
    x, labels = torch.tensor(features), torch.tensor(p.labels)
    w = torch.tensor(weights, requires_grad=True)
    b = torch.zeros(p.classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [w, b], max_iter=500, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def loss():
        logits = x @ w.T + b if w.ndim == 2 else x * w + b
        return torch.nn.functional.cross_entropy(logits, labels) + penalty(w, b)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)
    return w.detach().numpy(), b.detach().numpy(), float(loss().detach())


def test_vector_equals_torch():
    p = skewed()
    x = p.scores - p.scores.mean(axis=1, keepdims=True)
    t = Temperature().fit(p).temperature_
    vector = Vector(shrinkage=3.0).fit(p)

    def penalty(w, b):
        return 3.0 / (2 * len(p)) * (((w * t - 1) ** 2).sum() + (b**2).sum())

    w, b, _ = torch_fit(p, x, np.full(4, 1 / t), penalty)
    np.testing.assert_allclose(vector.weights_, w, atol=1e-5)
    np.testing.assert_allclose(vector.intercepts_, b, atol=1e-5)


@pytest.mark.parametrize(("calibrator", "log"), [(Matrix, False), (Dirichlet, True)])
@pytest.mark.parametrize("strength", [None, 0.05])
def test_matrix_and_dirichlet_equal_torch(calibrator, log, strength):
    p = skewed()
    t = Temperature().fit(p).temperature_
    x = np.log(p.probabilities()) if log else p.scores - p.scores.mean(axis=1, keepdims=True)
    fitted = calibrator(off_diagonal=strength, intercept=strength).fit(p)
    off = 50 * 12 / len(p) if strength is None else strength
    pull = 4 / (2 * len(p)) if strength is None else strength

    def penalty(w, b):
        rest = t * (w - torch.diag(torch.diag(w)))
        near = ((t * torch.diag(w) - 1) ** 2).sum() / (2 * len(p))
        return off / 12 * (rest**2).sum() + pull / 4 * (b**2).sum() + near

    w, b, best = torch_fit(p, x, np.eye(4) / t, penalty)
    ours = fitted.fitted_on_["nll_after"] + float(
        penalty(torch.tensor(fitted.weights_), torch.tensor(fitted.intercepts_))
    )
    assert ours <= best + 1e-9
    np.testing.assert_allclose(fitted.weights_, w, atol=1e-3)
    np.testing.assert_allclose(fitted.intercepts_, b, atol=1e-3)


def test_flexible_maps_improve_on_temperature_where_it_cannot_help():
    p, new = skewed(n=4000), skewed(n=4000, seed=1)
    from calibrant.metrics import nll

    temperature = nll(Temperature().fit(p).transform(new))
    for calibrator in (Vector(), Matrix(), Dirichlet()):
        assert nll(calibrator.fit(p).transform(new)) < temperature - 0.05


@pytest.mark.parametrize("calibrator", [Vector(), Matrix(), Dirichlet()])
def test_same_for_logits_and_log_probabilities(calibrator):
    p = skewed()
    logs = p.with_scores(np.log(p.probabilities()), "logits")
    a = calibrator.fit(p).transform(p).probabilities()
    b = calibrator.fit(logs).transform(logs).probabilities()
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("calibrator", [Vector(), Matrix(), Dirichlet()])
def test_missing_class_stays_finite(calibrator):
    p = overconfident(n=200, classes=4)
    kept = p[p.labels != 3]
    fitted = quiet_fit(calibrator, kept)
    assert np.isfinite(fitted.intercepts_).all()
    assert (fitted.transform(p).probabilities() > 0).all()


def test_many_classes_are_refused_with_advice():
    p = overconfident(n=10, classes=300)
    for calibrator in (Matrix(), Dirichlet()):
        with pytest.raises(InputError, match=r"90,300 for 300 classes; use 'temperature'"):
            calibrator.fit(p)
    with pytest.raises(InputError, match="shrinkage ≥ 0"):
        Vector(shrinkage=-1).fit(p)


def test_vector_with_a_thousand_classes():
    p = overconfident(n=1100, classes=1000, dtype=np.float32)
    fitted = Vector().fit(p)
    assert fitted.fitted_on_["nll_after"] < fitted.fitted_on_["nll_before"]


# Ensemble temperature scaling


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_mixture_weights_satisfy_the_optimality_conditions(seed, n):
    chosen = np.random.default_rng(seed).beta(0.5, 0.5, size=(n, 3)).clip(1e-12)
    weights = _mixture_weights(chosen)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    # d/dw_j of mean log Σ w p is 1 where w_j > 0 and at most 1 elsewhere.
    slopes = (chosen / (chosen @ weights)[:, None]).mean(axis=0)
    assert (slopes <= 1 + 1e-6).all()
    np.testing.assert_allclose(slopes[weights > 1e-6], 1, atol=1e-5)


def test_ensemble_mixes_in_uniform_where_labels_are_noisy():
    rng = np.random.default_rng(0)
    p = overconfident(n=5000, classes=4, scale=1.0)
    noisy = np.where(rng.random(5000) < 0.2, rng.integers(0, 4, 5000), p.labels)
    fitted = EnsembleTemperature().fit(Predictions.from_logits(4 * p.scores, noisy))
    assert 0.05 < fitted.weights_[2] < 0.4
    worse = Temperature().fit(Predictions.from_logits(4 * p.scores, noisy))
    assert fitted.fitted_on_["nll_after"] < worse.fitted_on_["nll_after"]


def test_a_step_that_leaves_next_to_nothing_is_not_evaluated():
    scale = np.array([1.0, 2.0, 4.0])

    def bowl(x):
        return float(np.cosh(x) @ scale), np.sinh(x) * scale

    def curvature(x):
        second = np.cosh(x) * scale
        return lambda slope: slope / second

    start, options = np.array([0.5, -0.4, 0.3]), {"tolerance": 1e-12, "curvature": curvature}
    exact = minimize(bowl, start, **options)
    quick = minimize(bowl, start, **options, negligible=1e-9)
    assert quick.converged
    assert quick.evaluations < exact.evaluations
    assert bowl(quick.x)[0] - 7 < 1e-8  # The minimum is Σ scale, at 0.
    assert quick.value == pytest.approx(7, abs=1e-8)


@pytest.mark.parametrize("classes", [3, 12, 40])
def test_the_inverse_curvature_takes_most_steps_away(classes, monkeypatch):
    rng = np.random.default_rng(classes)
    labels = rng.choice(classes, 2000, p=rng.dirichlet(np.ones(classes)))
    logits = 4 * (rng.normal(size=(2000, classes)) + 2 * np.eye(classes)[labels])
    p = Predictions.from_logits(logits, labels)
    found = []

    def spy(*arguments, **options):
        found.append(minimize(*arguments, **options))
        return found[-1]

    def without(*arguments, **options):
        return spy(*arguments, **{**options, "curvature": None})

    ends, counts = [], []
    for search in (spy, without):
        found.clear()
        monkeypatch.setattr("calibrant.calibrators.linear.minimize", search)
        quiet_fit(Dirichlet(), p)
        ends.append(found[-1])  # With many classes, the diagonal has a search of its own first.
        counts.append(sum(one.evaluations for one in found))
    assert ends[0].converged
    assert ends[0].value <= ends[1].value + 1e-7
    assert counts[0] < counts[1] / 1.5


@pytest.mark.parametrize("start", [np.eye(3), np.array([0.5, 1.0, 1.5])], ids=["matrix", "vector"])
def test_the_curvature_is_the_second_derivative(start):
    rng = np.random.default_rng(0)
    x, pull, b = rng.normal(size=(50, 3)), rng.random(start.shape), rng.normal(size=3)
    inverse = inverse_curvature(x, start, b, pull, 0.7)

    def value(theta):
        weights = theta[:-3].view(start.shape)
        matrix = weights if weights.ndim == 2 else torch.diag(weights)
        logits = torch.tensor(x) @ matrix.T + theta[-3:]
        nll = torch.logsumexp(logits, 1).mean()  # Less what is linear in the weights.
        square = (torch.tensor(pull) * weights**2).sum() + 0.7 * (theta[-3:] ** 2).sum()
        return nll + square / 2

    at = torch.tensor(np.append(start, b))
    second = torch.autograd.functional.hessian(value, at).numpy()
    vector = rng.normal(size=len(at))
    np.testing.assert_allclose(inverse(second @ vector), vector, rtol=1e-6)


@pytest.mark.parametrize("shape", [1, 2], ids=["vector", "matrix"])
def test_steps_of_many_classes_leave_out_what_no_probability_shows(shape):
    """The same change of all rows of W changes no probability: only the penalty sees it."""
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(50, 40)), rng.normal(size=40)
    start = np.ones(40) if shape == 1 else np.eye(40)
    pull = rng.random(start.shape)
    step = inverse_curvature(x, start, b, pull, 0.7)(rng.normal(size=start.size + 40))
    assert step[-40:].sum() == pytest.approx(0, abs=1e-9)
    if shape == 2:
        rows = step[:-40].reshape(40, 40)
        np.testing.assert_allclose((pull * rows).sum(axis=0), 0, atol=1e-9)


def test_no_regularisation_at_all_still_ends():
    p = skewed()
    free = quiet_fit(Matrix(off_diagonal=0.0, intercept=0.0), p)
    assert free.fitted_on_["nll_after"] <= Matrix().fit(p).fitted_on_["nll_after"] + 1e-9
