"""Scikit-learn: any classifier with calibrated probabilities, as an estimator."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator, calibrator_class
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.old_names import warn_renamed
from calibrant.predictions import Predictions

require("sklearn", "sklearn", "CalibratedClassifier")

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import check_cv, cross_val_predict  # noqa: E402
from sklearn.utils import assert_all_finite, column_or_1d, get_tags, indexable  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    _check_sample_weight,
    check_is_fitted,
    has_fit_parameter,
)

__all__ = ["CalibratedClassifier"]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier followed by a calibrator that makes its probabilities honest.

    ``fit`` predicts every example by a model that did not see it (cross-validation), fits the
    calibrator on those predictions, and refits the classifier on all examples. A classifier that is
    fitted already must be wrapped in scikit-learn's ``FrozenEstimator``; fit on examples it has not
    seen.

    ``estimator`` is any classifier with ``decision_function`` (taken as logits) or
    ``predict_proba`` (default: logistic regression). ``calibrator`` is a name of
    ``calibrant.calibrators.CALIBRATORS`` or a :class:`~calibrant.calibrators.Calibrator`. ``cv`` is
    as everywhere in scikit-learn (default: 5 folds, fewer if a class has fewer examples).
    ``method`` is the old name of ``calibrator``. Learned: ``estimator_``, ``calibrator_``,
    ``classes_``.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> honest = CalibratedClassifier(GaussianNB(), calibrator="temperature").fit(X, y)
    >>> honest.predict_proba(X).shape, honest.calibrator_.temperature_ > 1
    ((150, 3), True)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibrator: str | Calibrator = "temperature",
        cv: Any = None,
        n_jobs: int | None = None,
        method: str | Calibrator | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.n_jobs = n_jobs
        self.method = method

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CalibratedClassifier:
        """Fit the calibrator on cross-validated predictions and the classifier on all examples.

        ``sample_weight`` goes to the classifier, where its ``fit`` takes it, and to the calibrator.
        """
        X, y = indexable(X, column_or_1d(y, warn=True))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        estimator, weights, given = self._estimator(), None, {}
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            given = {"sample_weight": weights} if _takes_weights(estimator) else {}
        frozen = isinstance(estimator, FrozenEstimator)
        self.classes_, labels = _places(estimator, y) if frozen else _distinct(y)
        if weights is not None and (found := len(np.unique(labels[weights > 0]))) < 2:
            raise InputError(
                "CalibratedClassifier needs at least 2 classes whose examples have a weight above "
                f"0, got {found} class."
            )
        _check_one_score_per_class(estimator, len(self.classes_))
        if frozen:  # It has seen none of the examples.
            scores = getattr(estimator, _response(estimator))(X)
        else:
            folds = check_cv(_folds(self.cv, self.classes_, labels), y, classifier=True)
            options = {"cv": folds, "n_jobs": self.n_jobs, "method": _response(estimator)}
            scores = cross_val_predict(clone(estimator), X, y, params=given, **options)
        made = _predictions(scores, labels, estimator, weights)
        self.calibrator_ = self._calibrator().fit(made)
        self.estimator_ = clone(estimator).fit(X, y, **given)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated probabilities, of shape (n, K)."""
        check_is_fitted(self)
        scores = getattr(self.estimator_, _response(self.estimator_))(X)
        uncalibrated = _predictions(scores, np.zeros(len(scores), np.int64), self.estimator_)
        return np.asarray(self.calibrator_.transform(uncalibrated).probabilities())

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each example."""
        numbers = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _calibrator(self) -> Calibrator:
        chosen = self.calibrator
        if self.method is not None:
            chosen = self.method
            warn_renamed("CalibratedClassifier(method=…)", "CalibratedClassifier(calibrator=…)", 4)
        # fit must not change hyper-parameters.
        return clone(chosen) if isinstance(chosen, Calibrator) else calibrator_class(chosen)()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._estimator()).input_tags.sparse
        return tags


def _response(estimator: Any) -> str:
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            return name
    raise InputError(
        f"CalibratedClassifier needs a classifier with decision_function or predict_proba; "
        f"{type(estimator).__name__} has neither."
    )


def _distinct(y: Any) -> tuple[np.ndarray, np.ndarray]:
    classes, labels = np.unique(y, return_inverse=True)
    return classes, labels


def _places(estimator: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of a fitted classifier, of which ``y`` may lack some, and their places."""
    classes = np.asarray(estimator.classes_)
    places = {label: k for k, label in enumerate(classes.tolist())}
    found = [places.get(label, -1) for label in np.asarray(y).tolist()]
    if found and min(found) < 0:
        raise InputError(
            f"CalibratedClassifier: the label {np.asarray(y)[found.index(-1)]} is not one of the "
            f"{len(classes)} classes that the classifier was fitted on."
        )
    return classes, np.array(found, np.int64)


def _check_one_score_per_class(estimator: Any, classes: int) -> None:
    """Refuse scores of pairs of classes: of three classes they look like scores of classes."""
    if classes < 3 or _response(estimator) != "decision_function":
        return
    settings = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in settings.items():
        if name.endswith("decision_function_shape") and value == "ovo":
            raise InputError(
                "CalibratedClassifier needs one score per class, and with "
                f"{name}='ovo' there is one per pair of classes: use 'ovr'."
            )


def _takes_weights(estimator: Any) -> bool:
    """Whether the ``fit`` of a classifier takes sample weights."""
    return bool(has_fit_parameter(estimator, "sample_weight"))


def _predictions(
    scores: Any, labels: np.ndarray, estimator: Any, weights: np.ndarray | None = None
) -> Predictions:
    """Treat decision values as logits (one column: the second class), others as probabilities."""
    logits = _response(estimator) == "decision_function"
    make = Predictions.from_logits if logits else Predictions.from_probabilities
    return make(scores, labels, weights=weights)


def _folds(cv: Any, classes: np.ndarray, labels: np.ndarray) -> Any:
    """Choose the folds: each needs an example of every class; the default is 5 if possible."""
    counts = np.bincount(labels, minlength=len(classes))
    if len(classes) < 2:
        raise InputError(
            f"CalibratedClassifier needs at least 2 classes, got {len(classes)} class."
        )
    folds = max(2, min(5, counts.min())) if cv is None else cv
    if isinstance(folds, Integral) and counts.min() < folds:
        raise InputError(
            f"CalibratedClassifier: class {classes[counts.argmin()]} has {counts.min()} example(s) "
            f"for {folds}-fold cross-validation; give fewer folds (cv) or more examples of it."
        )
    return folds
