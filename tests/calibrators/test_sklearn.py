"""The scikit-learn wrapper: scikit-learn's own checks, and what the wrapper is for."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import InputError
from calibrant.calibrators import Temperature
from calibrant.calibrators.sklearn import CalibratedClassifier

pytestmark = pytest.mark.filterwarnings(
    # Toy data where every prediction is right; checks that scikit-learn itself skips.
    "ignore::calibrant.calibrators.CalibrationWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
)


CHECKS = parametrize_with_checks([CalibratedClassifier(), CalibratedClassifier(GaussianNB(), cv=3)])


# A list: some scikit-learn give a generator, which pytest 9.2 deprecates.
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def data(classes=3, n=600):
    return make_classification(
        n, n_features=20, n_informative=8, n_redundant=8, n_classes=classes, random_state=0
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_overconfident_classifier_becomes_honest(classes):
    X, y = data(classes, 1200)
    base = GaussianNB()
    plain = clone(base).fit(X[:800], y[:800]).predict_proba(X[800:])
    honest = CalibratedClassifier(base).fit(X[:800], y[:800])
    assert log_loss(y[800:], honest.predict_proba(X[800:])) < log_loss(y[800:], plain)
    np.testing.assert_array_equal(honest.predict(X[800:]), plain.argmax(axis=1))


def test_equals_scikit_learns_temperature_without_an_ensemble():
    pytest.importorskip("sklearn", "1.8")  # The first with temperature scaling.
    X, y = data()
    ours = CalibratedClassifier(LogisticRegression(), cv=3).fit(X, y)
    theirs = CalibratedClassifierCV(
        LogisticRegression(), method="temperature", cv=3, ensemble=False
    ).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_margins_of_a_support_vector_machine_become_probabilities():
    X, y = data()
    names = np.array(["cat", "dog", "owl"], dtype=object)[y]
    honest = CalibratedClassifier(LinearSVC(), calibrator=Temperature()).fit(X, names)
    probabilities = honest.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert set(honest.predict(X)) == {"cat", "dog", "owl"}
    assert abs(probabilities.max(axis=1).mean() - (honest.predict(X) == names).mean()) < 0.1


def test_frozen_classifier_is_not_refitted():
    X, y = data()
    base = GaussianNB().fit(X[:300], y[:300])
    honest = CalibratedClassifier(FrozenEstimator(base)).fit(X[300:], y[300:])
    logits = np.log(np.maximum(base.predict_proba(X), np.finfo(np.float32).tiny))
    scaled = np.exp(logits / honest.calibrator_.temperature_)
    expected = scaled / scaled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(honest.predict_proba(X), expected, atol=1e-6)


def test_works_in_pipelines_and_searches():
    X, y = data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB())),
        {"calibratedclassifier__calibrator": ["identity", "temperature"]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, y)
    assert search.best_params_ == {"calibratedclassifier__calibrator": "temperature"}


def test_calibrator_object_is_not_changed():
    X, y = data()
    method = Temperature()
    CalibratedClassifier(GaussianNB(), calibrator=method).fit(X, y)
    assert not hasattr(method, "temperature_")


def test_clear_errors():
    X, y = data()
    with pytest.raises(InputError, match="Did you mean 'temperature'"):
        CalibratedClassifier(calibrator="temperatur").fit(X, y)
    with pytest.raises(InputError, match="at least 2 classes"):
        CalibratedClassifier().fit(X, np.zeros_like(y))
    few = np.r_[np.zeros(10, int), np.ones(7, int), np.full(3, 2)]
    with pytest.raises(InputError, match=r"class 2 has 3 example\(s\) for 5-fold"):
        CalibratedClassifier(cv=5).fit(X[:20], few)
    assert CalibratedClassifier().fit(X[:20], few).calibrator_.fitted_on_["n"] == 20
    with pytest.raises(InputError, match=r"class 9 has 1 example\(s\) for 2-fold"):
        CalibratedClassifier().fit(X[:20], np.r_[few[:-1], 9])
    with pytest.raises(InputError, match="StandardScaler has neither"):
        CalibratedClassifier(StandardScaler()).fit(X, y)


def test_sample_weights_reach_the_classifier_and_the_map():
    X, y = data()
    w = np.random.default_rng(0).uniform(0.2, 2, len(y))
    fitted = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y, sample_weight=w)
    assert not np.allclose(fitted.estimator_.theta_, GaussianNB().fit(X, y).theta_)
    plain = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    ones = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y, sample_weight=np.ones(len(y)))
    assert ones.calibrator_.temperature_ == pytest.approx(plain.calibrator_.temperature_)
    assert fitted.calibrator_.temperature_ != pytest.approx(plain.calibrator_.temperature_)


@pytest.mark.parametrize("wrapped", [False, True])
def test_scores_of_pairs_of_classes_are_not_taken_for_scores_of_classes(wrapped):
    """Three classes have three pairs: the calibrated classifier was right 19 % of the time."""
    X, y = make_classification(120, n_informative=4, n_classes=3, random_state=0)
    pairs = SVC(decision_function_shape="ovo")
    with pytest.raises(InputError, match=r"one score per class, .*='ovo'.* use 'ovr'"):
        CalibratedClassifier(make_pipeline(StandardScaler(), pairs) if wrapped else pairs).fit(X, y)
    CalibratedClassifier(pairs).fit(X[y < 2], y[y < 2])
    good = CalibratedClassifier(SVC()).fit(X, y)
    assert (good.predict(X) == good.estimator_.predict(X)).mean() > 0.9


@pytest.mark.parametrize("kept", [[1, 2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("text", [False, True])
def test_a_fitted_classifier_may_know_more_classes_than_the_calibration_data(kept, text):
    X, y = make_classification(300, n_informative=4, n_classes=3, random_state=0)
    labels = np.array(["a", "b", "c"])[y] if text else y
    fitted = GaussianNB().fit(X[:150], labels[:150])
    some = np.isin(y, kept) & (np.arange(300) >= 150)
    honest = CalibratedClassifier(FrozenEstimator(fitted)).fit(X[some], labels[some])
    assert honest.classes_.tolist() == fitted.classes_.tolist()
    assert (honest.predict(X) == fitted.predict(X)).all()
    assert honest.predict_proba(X).shape == (300, 3)


def test_a_label_that_a_fitted_classifier_does_not_know():
    X, y = make_classification(100, random_state=0)
    fitted = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.raises(InputError, match="label 2 is not one of the 2 classes"):
        CalibratedClassifier(fitted).fit(X, y + 1)
