"""Watching predicted labels with one confidence each, where the scores of others are not known."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions, watch
from calibrant.calibrators import ShiftAware, TopLabelIsotonic
from calibrant.files import Columns, stream_unlabelled
from calibrant.watching import unlabelled

NAMES = ("cat", "dog", "owl")


def predictions(n, seed=0, sharp=0.4):
    """Predictions whose labels are drawn from their probabilities."""
    random = np.random.default_rng(seed)
    p = random.dirichlet([sharp] * 3, n)
    labels = (p.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    return Predictions.from_probabilities(p, labels, label_names=NAMES)


def top_labels(p):
    """The same, with the top label alone."""
    names, predicted = np.array(NAMES), np.asarray(p.scores).argmax(axis=1)
    claims = Claims.from_top_label(names[predicted], p.scores.max(axis=1), names[p.labels])
    return replace(claims, groups=p.groups)


def numbers(found):
    return [
        (c.rows, c.expected_accuracy, c.confidence_drift, c.class_drift, c.accuracy, c.alarms)
        for c in (*found.chunks, found.total)
    ]


@pytest.mark.parametrize("estimator", ["cbpe", "atc"])
def test_top_labels_tell_what_all_scores_tell(estimator):
    """All numbers but F1, which needs the probabilities of the other classes."""
    stream, reference = predictions(2000, 1), predictions(1500, 2)
    stream = Predictions.concatenate([stream, predictions(2000, 3, sharp=5.0)])
    known = np.random.default_rng(0).random(len(stream)) < 0.2
    stream = replace(stream, groups={"labelled": known})
    whole = watch(stream, reference=reference, estimator=estimator)
    claims = top_labels(stream)
    parts = claims.chunks(333)
    found = watch(parts, reference=top_labels(reference), estimator=estimator)
    for these, those in zip(numbers(found), numbers(whole), strict=True):
        assert these[0] == those[0]
        assert these[-1] == those[-1]
        np.testing.assert_allclose(np.hstack(these[1:5]), np.hstack(those[1:5]))
    assert [str(alarm) for alarm in found.alarms] == [str(alarm) for alarm in whole.alarms]
    assert found.alarms
    assert math.isnan(found.total.expected_macro_f1.value)
    assert found.total.class_f1 == {}


def test_new_labels_are_drift():
    reference = top_labels(predictions(1500))
    stream = Claims.from_top_label(["elk"] * 1500, [0.8] * 1500, correct=[False] * 1500)
    found = watch(unlabelled(stream), reference=reference)
    assert found.total.class_drift == 1.0
    assert "classes" in [alarm.test for alarm in found.alarms]


def test_rare_labels_that_the_reference_lacks_are_no_change():
    """The rate of false alarms holds for many labels of which most are rare."""
    random = np.random.default_rng(0)
    share = np.arange(1, 201) ** -1.3
    alarms = 0
    for seed in range(20):
        labels = random.choice(200, 3800, p=share / share.sum()).astype(str)
        claims = Claims.from_top_label(labels, random.uniform(0.5, 1, 3800), labels)
        found = watch(unlabelled(claims[800:]), reference=claims[:800], seed=seed)
        alarms += bool(found.alarms)
    assert not alarms


def test_labels_of_the_least_certain_rows_say_nothing_about_the_stream():
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 3000)
    claims = Claims.from_top_label(None, confidence, correct=random.random(3000) < confidence)
    (line,) = [each for each in watch(claims).verdict if "arrived" in each]
    assert line.endswith("even if it changes.")
    reviewed = replace(claims, groups={"labelled": confidence < 0.6})
    (line,) = [each for each in watch(reviewed).verdict if "arrived" in each]
    assert "about the whole stream only if they are a random sample" in line


def test_confidences_alone():
    """Without predicted labels there is no drift of classes, and no test that spends its rate."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 3000)
    claims = Claims.from_top_label(None, confidence, correct=random.random(3000) < confidence)
    found = watch(claims[1000:], reference=claims[:1000])
    assert math.isnan(found.total.class_drift)
    assert found.settings["tests"] == ["confidences", "honesty"]
    assert not found.alarms
    assert found.total.expected_accuracy.value == pytest.approx(confidence[1000:].mean())
    low, high = found.total.accuracy[1:]
    assert low < claims.correct[1000:].mean() < high


def test_a_calibrator_of_claims_is_applied():
    random = np.random.default_rng(0)
    hard = random.random(6000) < 0.5
    confidence = random.uniform(0.5, 1, 6000)
    correct = random.random(6000) > np.where(hard, 0.5, 0.1)
    claims = Claims.from_top_label(None, confidence, correct=correct, signals={"hard": hard})
    valid, new = claims[:3000], claims[3000:]
    for calibrator in (TopLabelIsotonic().fit(valid), ShiftAware().fit(valid)):
        found = watch(unlabelled(new), reference=valid, calibrator=calibrator, chunk=3000)
        assert found.total.expected_accuracy.value == pytest.approx(0.7, abs=0.02)
    only_hard = new[new.signals["hard"] == 1]
    found = watch(unlabelled(only_hard), reference=valid, calibrator=calibrator, chunk=3000)
    assert found.total.expected_accuracy.value == pytest.approx(0.5, abs=0.04)
    without = replace(new, signals={})
    with pytest.raises(InputError, match="signal 'hard', which is missing"):
        watch(unlabelled(without), reference=valid, calibrator=calibrator)


def test_bad_streams():
    p = predictions(50)
    claims = top_labels(p)
    with pytest.raises(InputError, match="reference has the scores of all classes, the stream one"):
        watch(claims, reference=p)
    with pytest.raises(InputError, match="reference has one confidence per row, the stream the"):
        watch(p, reference=claims)
    with pytest.raises(InputError, match="one kind of scores"):
        watch([claims, p])
    with pytest.raises(InputError, match="takes claims of top labels, got multi-label"):
        watch(Claims.from_multi_label([[0.9, 0.2]], [[1, 0]]))
    bare = Claims.from_top_label(None, claims.confidence, correct=claims.correct)
    with pytest.raises(InputError, match="reference has predicted labels, the stream has none"):
        watch(bare, reference=claims)


def written(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_files_with_some_labels(tmp_path):
    rows = [("pred", "score", "target", "day", "signal.x")]
    rows += [("a", 0.9, "a", 1, 2), ("b", 0.8, "", 1, 3), ("b", 0.7, "a", 2, 4)]
    rows += [("a", 0.6, -100, 2, 5), ("NA", 0.5, "NA", 3, 6)]
    path = written(tmp_path / "day.csv", rows)
    [part] = stream_unlabelled(path, top_labels=True)
    assert part.confidence.tolist() == [0.9, 0.8, 0.7, 0.5]
    assert part.groups["labelled"].tolist() == [True, False, True, True]
    assert part.correct[part.groups["labelled"]].tolist() == [True, False, True]
    assert part.text("about").tolist() == ["a", "b", "b", "NA"]
    assert part.groups["day"].tolist() == [1, 1, 2, 3]
    assert part.signals["x"].tolist() == [2, 3, 4, 6]
    assert part.ignored == 1


def test_na_is_a_class_or_a_missing_label_in_all_chunks(tmp_path):
    """Where no row of a chunk predicts NA, a true NA is wrong: it must not be left out."""
    rows = [("pred", "score", "target"), ("a", 0.9, "a"), ("a", 0.8, "NA"), ("NA", 0.7, "NA")]
    path = written(tmp_path / "day.csv", rows)
    names = Columns(label_names=("a", "NA"))
    for size, columns in ((1, names), (3, names), (3, Columns())):
        found = list(stream_unlabelled(path, columns, rows=size, top_labels=True))
        assert [bool(right) for part in found for right in part.correct] == [True, False, True]
        assert all(part.groups["labelled"].all() for part in found)
    with pytest.raises(InputError, match=r"day\.csv: 'NA' is predicted, but was read as a missing"):
        list(stream_unlabelled(path, rows=1, top_labels=True))


@pytest.mark.parametrize("head", [("label", "score"), ("predicted", "confidence")])
def test_files_without_labels(tmp_path, head):
    """Also those of a pipeline, which calls its prediction "label"."""
    path = written(tmp_path / "day.csv", [(*head, "shop"), ("a", 0.9, "x"), ("b", 0.8, "y")])
    [part] = stream_unlabelled(path, top_labels=True)
    assert part.text("about").tolist() == ["a", "b"]
    assert not part.groups["labelled"].any()
    assert part.groups["shop"].tolist() == ["x", "y"]
    assert watch(part).total.labelled == 0


def test_files_that_say_what_is_right(tmp_path):
    rows = [("confidence", "correct"), (0.9, "yes"), (0.8, ""), (0.7, "no")]
    [part] = stream_unlabelled(written(tmp_path / "day.csv", rows), top_labels=True)
    assert part.groups["labelled"].tolist() == [True, False, True]
    assert part.correct.tolist() == [True, False, False]
    path = written(tmp_path / "odd.csv", [*rows, (0.5, "perhaps")])
    with pytest.raises(InputError, match=r"odd\.csv: 'correct' must hold .*'perhaps' at line 5"):
        list(stream_unlabelled(path, top_labels=True))


def test_files_of_top_labels_where_all_scores_are_needed(tmp_path):
    rows = [("pred", "score", "target"), ("a", 0.9, "a")]
    stream = stream_unlabelled(written(tmp_path / "day.csv", rows))
    with pytest.raises(InputError, match=r"needs the scores of all classes.*and watch take these"):
        next(stream)
