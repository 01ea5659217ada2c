"""Every metric of the table against the plain loops that follow its definition."""

import functools
import inspect
import math

import metric_loops as loops
import numpy as np
import pytest
import view_loops

from calibrant.metrics import METRICS, Metric, measure

CLASSES = {name: metric for name, metric in METRICS.items() if metric.kind == "classes"}
WITH_BINS = [
    name
    for name, metric in CLASSES.items()
    if "bins" in inspect.signature(metric.function).parameters
]
WITH_ENDS = [
    name for name in WITH_BINS if "closed" in inspect.signature(METRICS[name].function).parameters
]
# Twins that integrate: so many examples, to this accuracy.
ROUGH = {"smooth_ece": (25, 3e-4)}
VIEWS = {
    "tags": view_loops.tagged_sample(),
    "pixels": view_loops.pixel_sample(),
    "binary": view_loops.binary_sample(),
    "labels": view_loops.label_sample(),
}


def twin_of(name):
    """The plain loop of the same name: a metric without one fails."""
    module = loops if METRICS[name].kind == "classes" else view_loops
    assert hasattr(module, name), f"{module.__name__}.py needs a plain-loop twin of '{name}'"
    return getattr(module, name)


def options_of(metric: Metric):
    function = metric.function
    return function.keywords if isinstance(function, functools.partial) else {}


@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes(predictions, name):
    rows, tolerance = ROUGH.get(name, (len(predictions), 1e-6))
    expected = twin_of(name)(predictions[:rows], **options_of(METRICS[name]))
    value = METRICS[name].function(predictions[:rows])
    assert value == pytest.approx(expected, rel=1e-6, abs=tolerance)


@pytest.mark.parametrize("bins", [1, 5, 7, 15])
@pytest.mark.parametrize("name", WITH_BINS)
def test_numbers_of_bins(predictions, name, bins):
    expected = twin_of(name)(predictions, bins)
    tolerance = 1e-6 if predictions.scores.dtype == np.float32 else 1e-12
    assert METRICS[name].function(predictions, bins) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", WITH_ENDS)
def test_bins_closed_at_the_left(predictions, name):
    expected = twin_of(name)(predictions, 15, "left")
    tolerance = 1e-6 if predictions.scores.dtype == np.float32 else 1e-12
    value = METRICS[name].function(predictions, closed="left")
    assert value == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", ["adaptive_ece", "adaptive_classwise_ece"])
def test_more_bins_of_equal_mass_than_examples(predictions, name):
    expected = twin_of(name)(predictions, 1000)
    assert METRICS[name].function(predictions, 1000) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("coverage", [0.01, 0.3, 0.5, 0.999, 1.0])
def test_risk_at_coverage(predictions, coverage):
    expected = loops.risk_at_coverage(predictions, coverage)
    function = METRICS["risk_at_coverage"].function
    assert function(predictions, coverage=coverage) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("risk", [0.0, 0.2, 1.0])
def test_coverage_at_risk(predictions, risk):
    expected = loops.coverage_at_risk(predictions, risk)
    function = METRICS["coverage_at_risk"].function
    assert function(predictions, risk=risk) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in METRICS if name not in CLASSES])
def test_metrics_of_tags_and_pixels(name):
    p = VIEWS[METRICS[name].kind]
    kinds = ["binary"] if METRICS[name].kind == "binary" else None
    assert measure(p, kinds)[name] == pytest.approx(twin_of(name)(p), abs=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", VIEWS)
def test_without_examples_no_metric_has_a_number(kind):
    nothing = measure(VIEWS[kind][:0], ["classes", "binary"] if kind == "binary" else None)
    assert {METRICS[name].kind for name in nothing} == {"classes", kind}
    assert all(math.isnan(value) for value in nothing.values())


def test_all_at_once_are_the_metrics_one_by_one(predictions):
    found = measure(predictions)
    every = {name for name, metric in CLASSES.items() if metric.source != ("scores",)}
    assert set(found) == every
    for name, value in found.items():
        assert value == pytest.approx(CLASSES[name].function(predictions), rel=1e-12, abs=1e-12)
