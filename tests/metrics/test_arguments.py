"""Every public metric and plot × every kind of argument: it works, or one line says what to do."""

import inspect
import warnings

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions
from calibrant.auditing import audit
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    MatchCounts,
    Scene,
    TagSet,
    TopBins,
    accumulate,
    accuracy,
    adaptive_ece,
    assign_blocks,
    auroc,
    bin_confidences,
    bootstrap_interval,
    classwise_ece,
    confidence_steps,
    confidences,
    debiased_rms_ece,
    ece,
    entity_counts,
    entity_ece,
    entity_f1,
    entity_state,
    mce,
    replicate,
)

# What the other arguments of a function are, by their name.
OTHERS = {
    "coverage": 0.8,
    "risk": 0.1,
    "classes": 2,
    "label_names": ["O", "B-X"],
    "labels": np.array([0, 1]),
    "tags": TagSet.of(["O", "B-X"]),
    "starts": np.array([True, False]),
    "mask": np.zeros((2, 2), int),
    "ece": 0.1,
    "metric": ece,
    "source": Predictions.from_probabilities([0.9, 0.2], [1, 0]),
    "x_label": "x",
    "y_label": "y",
}


def kinds():
    p = Predictions.from_probabilities(
        [[0.9, 0.1], [0.3, 0.7]], [0, 0], label_names=["O", "B-X"], groups={"sentence": [0, 1]}
    )
    array = np.array([[0.9, 0.1], [0.3, 0.7]])
    scene = Scene.from_logits(np.zeros((2, 2), np.uint8), np.zeros((2, 2, 2)), np.eye(2, dtype=int))
    return {
        "predictions": p,
        "state": accumulate(p),
        "state with blocks": accumulate(p, block=np.array([0, 1]), blocks=2),
        "confidences": confidences(p),
        "confidences with blocks": confidences(p, np.array([0, 1])),
        "steps": confidence_steps(p),
        "claims": Claims.from_top_label(["a", "b"], [0.9, 0.7], ["a", "a"]),
        "top bins": TopBins.from_probabilities(array, [0, 0]),
        "counts": entity_counts(p),
        "scene": scene,
        "array": array,
        "list": [0.9, 0.1],
        "None": None,
        "text": "test.npz",
        "number": 0.5,
        "function": accuracy,
        "dict": {},
    }


def functions():
    pytest.importorskip("matplotlib").use("Agg")
    import calibrant.plots

    for module in (calibrant.metrics, calibrant.plots):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                yield f"{module.__name__.rpartition('.')[2]}.{name}", function


def required(function):
    """The names of the arguments that have no default; that of the first may be anything."""
    every = inspect.signature(function).parameters.values()
    return [p.name for p in every if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def outcome(function, *args, **named):
    """None, or the line that says what is wrong; another error fails the test."""
    line = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args, **named)
    except InputError as error:
        line = str(error)
    assert line is None or ("\n" not in line and len(line) < 400), line
    return line


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_each_argument_works_or_is_refused_in_one_line(name, function):
    names = required(function)
    for tried in names:
        for kind, value in kinds().items():
            given = {other: OTHERS.get(other, kinds()["predictions"]) for other in names}
            try:
                outcome(function, **(given | {tried: value}))
            except Exception as error:
                pytest.fail(f"{name}({tried}={kind}): {type(error).__name__}: {error}")


@pytest.mark.parametrize("bins", [np.array([0, 1]), "15", None, 2.5, 0, -3, True, float("nan")])
def test_bins_of_the_wrong_kind(bins):
    """``ece(predictions, labels)``, as other libraries are called."""
    p = kinds()["predictions"]
    for metric in (ece, classwise_ece, adaptive_ece):
        assert "whole number of bins" in outcome(metric, p, bins), metric


def test_the_error_for_arrays_says_what_to_call():
    scores, labels = kinds()["array"], np.array([0, 0])
    assert ece(scores, labels) == ece(kinds()["predictions"])
    assert outcome(ece, scores) == (
        "ece takes predictions or a state, or two arrays: ece(probabilities, labels); got only an "
        "array of shape (2, 2)."
    )
    assert "if these are logits, say so" in outcome(ece, 9 * scores, labels)
    assert "bootstrap_interval(metric, probabilities, labels); got" in outcome(
        bootstrap_interval, ece, scores
    )
    assert "a state keeps sums per bin" in outcome(auroc, kinds()["state"])
    assert "calibrant.read(path) reads a file" in outcome(ece, "test.npz")
    assert "audit takes Predictions or Claims, got an array" in outcome(audit, scores)
    assert "audit takes Predictions or Claims, got the text" in outcome(audit, "test.npz")
    assert "audit takes Predictions or Claims, got an array" in outcome(audit, [scores])


def test_confidences_have_an_ece():
    p = kinds()["predictions"]
    assert ece(confidences(p)) == pytest.approx(ece(p))
    assert ece(confidences(p), 4) == pytest.approx(ece(bin_confidences(confidences(p), 4)))
    assert accuracy(confidences(p)) == accuracy(p)


def test_intervals_of_predictions():
    rng = np.random.default_rng(0)
    groups = {"sentence": np.repeat(np.arange(60), 5)}
    scores, labels = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300)
    names = ["O", "B-X", "I-X"]
    p = Predictions.from_probabilities(scores, labels, groups=groups, label_names=names)
    where = {"block": assign_blocks(p), "blocks": 1000}
    assert bootstrap_interval(ece, p) == pytest.approx(
        bootstrap_interval(ece, accumulate(p, **where))
    )
    assert bootstrap_interval(classwise_ece, p) == pytest.approx(
        bootstrap_interval(classwise_ece, accumulate(p, **where))
    )
    each = confidences(p, where["block"])
    assert bootstrap_interval(adaptive_ece, p) == pytest.approx(
        bootstrap_interval(adaptive_ece, each)
    )
    counts = entity_counts(p, **where)
    assert bootstrap_interval(entity_f1, p) == pytest.approx(bootstrap_interval(entity_f1, counts))
    entities = entity_state(p, **where)
    assert bootstrap_interval(entity_ece, p) == pytest.approx(
        bootstrap_interval(entity_ece, entities), nan_ok=True
    )
    assert replicate(ece, p, replicates=10).shape == (10,)
    assert "bootstrap_interval takes a metric and its source" in outcome(bootstrap_interval, p, ece)


def test_diagrams_of_predictions():
    pytest.importorskip("matplotlib")
    from calibrant.plots import classwise_grid, confidence_histogram, reliability_diagram

    p = kinds()["predictions"]
    assert reliability_diagram(p).get_xlabel() == "Confidence"
    assert reliability_diagram(confidences(p)).get_xlabel() == "Confidence"
    assert confidence_histogram(p).get_xlabel() == "Confidence"
    assert [ax.get_title(loc="left") for ax in classwise_grid(p).axes] == ["O", "B-X"]


@pytest.mark.parametrize("metric", [ece, mce, classwise_ece, debiased_rms_ece])
def test_other_bins_than_those_of_a_state_are_an_error(metric):
    p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    assert metric(accumulate(p, 30)) == metric(accumulate(p, 30), 30) == metric(p, 30)
    with pytest.raises(InputError, match="got 30 bins, closed right, for a state with 15"):
        metric(accumulate(p), 30)
    with pytest.raises(InputError, match="closed left, for a state with 15, closed right"):
        metric(accumulate(p), closed="left")


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"types": ["X"], "correct": ["a"]}', "null"])
@pytest.mark.parametrize("kind", [MatchCounts, Confidences, CalibrationState])
def test_other_json_is_refused_in_one_line(kind, text):
    with pytest.raises(InputError) as caught:
        kind.from_json(text)
    assert "\n" not in str(caught.value)


def test_labels_as_a_list_of_texts_are_named():
    """The error claimed that the labels were missing."""
    with pytest.raises(InputError, match=r"are text .* and the label names are not known"):
        ece(np.array([[0.75, 0.25], [0.5, 0.5]]), ["cat", "dog"])
    assert ece(np.array([0.75, 0.25]), ["1", "0"]) == 0.25
