"""Quadratic scaling, Venn–Abers prediction, centred isotonic regression: by their definitions."""

import numpy as np
import pytest
from calibrator_samples import as_probabilities, overconfident, quiet_fit
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from calibrant import InputError, Predictions, nll
from calibrant.calibrators import (
    Beta,
    CentredIsotonic,
    Isotonic,
    Quadratic,
    TopLabelCentredIsotonic,
    TopLabelQuadratic,
    TopLabelVennAbers,
    VennAbers,
)


def binary(n=400, seed=0, size=2.0):
    """Log-odds that are too large on one side only."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) * size
    labels = (rng.random(n) < 1 / (1 + np.exp(-s))).astype(int)
    return Predictions.from_logits(np.where(s > 0, 3 * s, s), labels)


def logistic_loss(coefficients, p):
    s = p.scores[:, 1] - p.scores[:, 0]
    z = coefficients @ np.stack([np.ones_like(s), s, s**2])
    return (np.logaddexp(0, z) - p.labels * z).mean()


def test_quadratic_is_the_optimum():
    p = binary()
    fitted = Quadratic(ridge=1e-6).fit(p).coefficients_[0]
    found = minimize(logistic_loss, [0, 1, 0], (p,), method="BFGS", options={"gtol": 1e-9})
    assert logistic_loss(fitted, p) == pytest.approx(found.fun, abs=1e-10)
    np.testing.assert_allclose(fitted, found.x, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # Its imports warn of what torch will drop.
def test_quadratic_is_no_worse_than_probmetrics():
    theirs = pytest.importorskip("probmetrics.calibrators").RegularizedQuadraticScalingCalibrator
    theirs._warmed_up = True  # Else it compiles every penalty, for ten seconds.
    p = binary(size=0.5)  # Its steps are too long for larger scores.
    other = theirs(print_init_info=False, tol=1e-6, max_iter=2000)
    other.fit(p.probabilities().astype(np.float32), p.labels)
    fitted = Quadratic(ridge=1e-6).fit(p)
    assert logistic_loss(fitted.coefficients_[0], p) <= logistic_loss(other.w_, p) + 1e-9
    expected = other.predict_proba(p.probabilities().astype(np.float32))
    np.testing.assert_allclose(fitted.transform(p).scores, expected, atol=0.02)


@pytest.mark.parametrize(("a", "c"), [(0.1, 0.0), (0.0, 0.5), (0.2, 0.3)])
def test_penalties_of_quadratic(a, c):
    p = binary()

    def value(theta):
        return logistic_loss(theta, p) + a * theta[0] ** 2 + c * theta[2] ** 2

    fitted = Quadratic(intercept=a, curvature=c, ridge=1e-6).fit(p).coefficients_[0]
    found = minimize(value, [0, 1, 0], method="BFGS", options={"gtol": 1e-9})
    assert value(fitted) == pytest.approx(found.fun, abs=1e-9)
    with pytest.raises(InputError, match="intercept ≥ 0, curvature ≥ 0 and ridge > 0"):
        Quadratic(intercept=-1).fit(p)
    with pytest.raises(InputError, match="ridge > 0"):
        Quadratic(ridge=0).fit(p)


def separable(n=45, gap=0.5):
    """Two classes whose log-odds do not overlap: the likelihood alone has no optimum."""
    s = np.random.default_rng(n).uniform(gap, 3, n)
    labels = (np.arange(n) % 3 > 0).astype(int)
    return Predictions.from_logits(np.where(labels == 1, s, -s) - 0.2, labels)


def penalised(theta, x, labels, centre, ridge):
    z = x @ theta
    nll = (np.logaddexp(0, z) - labels * z).mean()
    return nll + ridge / len(labels) / 2 * ((theta - centre) ** 2).sum()


@pytest.mark.parametrize("ridge", [0.1, 2.0])
def test_separable_classes_against_brute_force(ridge, monkeypatch):
    """The optimum of the NLL and the prior, sought by scipy in three numbers."""
    monkeypatch.setattr(Quadratic, "_claims_too_much", lambda *_: False)
    monkeypatch.setattr(Beta, "_claims_too_much", lambda *_: False)
    p = separable()
    s = p.scores[:, 1] - p.scores[:, 0]
    scale = np.sqrt((s**2).mean())
    z = s / scale
    x, centre = np.stack([np.ones_like(z), z, z**2], axis=1), np.array([0.0, scale, 0.0])
    arguments = (x, p.labels, centre, ridge)
    found = minimize(penalised, centre, arguments, method="BFGS", options={"gtol": 1e-10})
    fitted = Quadratic(ridge=ridge).fit(p).coefficients_[0]
    np.testing.assert_allclose(fitted, found.x / [1, scale, scale**2], atol=2e-5)

    x = np.stack([-np.logaddexp(0, -s), np.logaddexp(0, s), np.ones_like(s)], axis=1)
    arguments = (x, p.labels, np.array([1.0, 1.0, 0.0]), ridge)
    bounds = [(0, None), (0, None), (None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10}
    found = minimize(penalised, [1, 1, 0], arguments, bounds=bounds, options=options)
    beta = Beta(ridge=ridge).fit(p)
    fitted = np.array([beta.a_[0, 0], beta.b_[0, 0], beta.c_[0, 0]])
    np.testing.assert_allclose(fitted, found.x, atol=2e-4)


@pytest.mark.parametrize("calibrator", [Quadratic, TopLabelQuadratic, Beta])
def test_separable_classes_of_45_rows_do_not_become_certainty(calibrator):
    """Class 1 of three is separable, the others are not: no fallback, and no blow-up."""
    rng = np.random.default_rng(0)
    labels = np.arange(45) % 3
    logits = rng.normal(size=(45, 3))
    logits[:, 1] = np.where(labels == 1, 3, -3) + 0.1 * rng.normal(size=45)
    p = Predictions.from_logits(logits, labels)
    fitted = quiet_fit(calibrator(), p)
    assert not fitted.fell_back_
    assert fitted.transform(p).probabilities().max() < 0.9995


def test_the_prior_fades_as_examples_grow():
    """Its share of the optimum falls as 1 / n."""
    moved = []
    for n in (400, 4000):
        p = binary(n)
        weak, strong = (Quadratic(ridge=r).fit(p).coefficients_ for r in (1e-6, 0.1))
        moved.append(np.abs(weak - strong).max())
    assert moved[1] < moved[0] / 3


def test_top_label_quadratic_is_of_the_confidence():
    p = overconfident(n=500, classes=4)
    fitted = quiet_fit(TopLabelQuadratic(), p)
    q = p.probabilities()
    top = q.max(axis=1)
    s = np.log(top) - np.log(np.sort(q, axis=1)[:, :-1].sum(axis=1))
    a, b, c = fitted.coefficients_[0]
    expected = np.maximum(1 / (1 + np.exp(-(a + b * s + c * s**2))), 0.25)
    np.testing.assert_allclose(fitted.transform(p).scores.max(axis=1), expected, rtol=2e-4)
    again = quiet_fit(TopLabelQuadratic(), as_probabilities(p))
    np.testing.assert_allclose(again.coefficients_, fitted.coefficients_, rtol=1e-6)


def by_definition(scores, happened, new):
    """p₀ and p₁ by two isotonic regressions for each new score."""
    result = []
    for label in (0, 1):
        fits = []
        for s in new:
            isotonic = IsotonicRegression().fit(np.append(scores, s), np.append(happened, label))
            fits.append(isotonic.predict([s])[0])
        result.append(np.array(fits))
    return result


@given(
    scores=st.lists(st.integers(0, 12), min_size=1, max_size=25),
    seed=st.integers(0, 2**31),
    rate=st.floats(0, 1),
)
@settings(max_examples=25)
def test_venn_abers_is_two_isotonic_regressions(scores, seed, rate):
    scores = np.array(scores) / 13 + 0.02
    happened = np.random.default_rng(seed).random(len(scores)) < rate
    p = Predictions.from_probabilities(scores, happened.astype(int))
    fitted = quiet_fit(VennAbers(), p)
    new = np.unique(np.concatenate([scores, np.arange(27) / 26]))
    low, high = fitted.interval(Predictions.from_probabilities(new, np.zeros(len(new), int)))
    expected_low, expected_high = by_definition(scores, happened, new)
    np.testing.assert_allclose(low[:, 1], expected_low, atol=1e-9)
    np.testing.assert_allclose(high[:, 1], expected_high, atol=1e-9)
    np.testing.assert_allclose(low[:, 0], 1 - high[:, 1], atol=1e-12)


def test_venn_abers_gives_the_mean_of_its_interval_in_log_loss():
    p = binary(2000)
    fitted = VennAbers().fit(p)
    assert not fitted.fell_back_
    low, high = fitted.interval(p)
    q = fitted.transform(p).scores[:, 1]
    np.testing.assert_allclose(q, high[:, 1] / (1 - low[:, 1] + high[:, 1]), atol=1e-12)
    assert (low <= high).all()
    assert ((low[:, 1] <= q) & (q <= high[:, 1])).all()
    plain = Isotonic(floor=0).fit(p).transform(p).scores[:, 1]
    assert ((low[:, 1] <= plain + 1e-12) & (plain <= high[:, 1] + 1e-12)).all()


def test_interval_narrows_with_data_and_is_valid():
    """Averaged over new examples, p₀ and p₁ enclose the frequency (Vovk et al., 2015)."""
    widths = []
    for n in (100, 10000):
        p, new = binary(n), binary(20000, seed=1)
        low, high = quiet_fit(VennAbers(), p).interval(new)
        widths.append((high - low)[:, 1].mean())
        assert low[:, 1].mean() - 0.02 < new.labels.mean() < high[:, 1].mean() + 0.02
    assert widths[1] < widths[0] / 5


@pytest.mark.parametrize("calibrator", [VennAbers, TopLabelVennAbers])
def test_interval_refuses_what_transform_refuses(calibrator):
    p = overconfident(n=60, classes=4)
    fitted = quiet_fit(calibrator(), p)
    other = overconfident(n=5, classes=3)
    named = Predictions.from_logits(p.scores, p.labels, label_names=list("abcd"))
    renamed = Predictions.from_logits(p.scores, p.labels, label_names=list("dcba"))
    for act in (fitted.interval, fitted.transform):
        with pytest.raises(InputError, match="fitted on 4 classes, got scores of shape"):
            act(other)
    fitted = quiet_fit(calibrator(), named)
    messages = []
    for act in (fitted.interval, fitted.transform):
        with pytest.raises(InputError) as error:
            act(renamed)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_interval_of_the_top_label_and_of_many_classes():
    p = overconfident(n=800, classes=4)
    low, high = quiet_fit(TopLabelVennAbers(), p).interval(p)
    assert low.shape == high.shape == (800,)
    assert low.mean() < (p.scores.argmax(axis=1) == p.labels).mean() < high.mean()
    low, high = quiet_fit(VennAbers(), p).interval(p)
    assert low.shape == high.shape == (800, 4)
    assert (low <= high).all()
    with pytest.raises(InputError, match=r"VennAbers\.interval expects Predictions, got ndarray"):
        VennAbers().interval(np.zeros((3, 4)))


def centred_by_hand(scores, happened, new):
    """Plain isotonic values; equal ones are a block, which stands at its mean score."""
    order = np.argsort(scores, kind="stable")
    scores, happened = scores[order], happened[order].astype(float)
    values = IsotonicRegression().fit_transform(scores, happened)
    blocks = [(values == v) for v in np.unique(values)]
    return np.interp(new, [scores[b].mean() for b in blocks], [values[b][0] for b in blocks])


@given(seed=st.integers(0, 2**31), n=st.integers(1, 40), digits=st.sampled_from([1, 2, 6]))
@settings(max_examples=60)
def test_centred_isotonic_by_hand(seed, n, digits):
    rng = np.random.default_rng(seed)
    scores = rng.random(n).round(digits)
    happened = rng.random(n) < scores
    fitted = CentredIsotonic(floor=0)
    p = Predictions.from_probabilities(scores, happened.astype(int))
    quiet_fit(fitted, p)
    fitted.fell_back_ = False
    new = rng.random(30)
    got = fitted.transform_scores(new, "probabilities")
    np.testing.assert_allclose(got, centred_by_hand(scores, happened, new), atol=1e-9)


def test_centred_isotonic_keeps_the_ranking_that_isotonic_loses():
    p = binary(3000)
    p = p.with_scores(p.probabilities(), "probabilities")
    scores = np.sort(p.scores[:, 1])
    inner = scores[300:-300]
    plain, centred = (
        quiet_fit(c, p).transform_scores(inner, "probabilities")
        for c in (Isotonic(), CentredIsotonic())
    )
    assert (np.diff(plain) == 0).mean() > 0.9
    assert (np.diff(centred) > 0).all()


def test_top_label_centred_isotonic_orders_confidences():
    p = overconfident(n=2000, classes=4)
    fitted = quiet_fit(TopLabelCentredIsotonic(), p)
    confidence = np.sort(p.probabilities().max(axis=1))
    out = np.sort(fitted.transform(p).probabilities().max(axis=1))
    assert len(np.unique(out)) > 0.8 * len(np.unique(confidence))
    assert nll(fitted.transform(p)) < nll(p)
