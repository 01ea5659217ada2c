"""Claims: top labels with one confidence each, against the path of full probabilities."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions, audit, compare, load_calibrator
from calibrant.calibrators import CALIBRATORS, ClassTemperature, TopLabelVennAbers, VennAbers
from calibrant.calibrators.scalar import OneVsRest, TopLabel
from calibrant.comparison import select_calibrator
from calibrant.metrics import (
    METRICS,
    accumulate,
    assign_blocks,
    bootstrap_interval,
    classwise_ece,
    confidences,
    ece,
    entity_f1,
    mean_iou,
    measure,
    top_label,
)

TAKEN = [name for name, row in CALIBRATORS.items() if row.calibrator.takes_claims]
ignore = pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")


def drawn(n: int, classes: int = 4, seed: int = 0, dtype: type = np.float64) -> Predictions:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = 3 * (random.normal(size=(n, classes)) + np.eye(classes)[labels])
    p = Predictions.from_logits(logits, labels)
    return Predictions.from_probabilities(p.probabilities().astype(dtype), labels)


def top_of(p: Predictions) -> Claims:
    """The same predictions, with the top label alone."""
    predicted, n = p.scores.argmax(axis=1), np.arange(len(p))
    return Claims.from_top_label(predicted, p.scores[n, predicted], p.labels, groups=p.groups)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 1000, 65_535, 65_536, 65_537])
def test_every_metric_is_that_of_the_full_probabilities(n: int, dtype: type, classes: int) -> None:
    p = drawn(n, classes, dtype=dtype)
    full, top = measure(p), measure(top_of(p))
    missing = {"classwise_ece"}
    assert set(full) - set(top) == missing
    # Of two classes the loss of "right or wrong" is that of the classes.
    differ = set() if classes == 2 else {"nll", "brier"}
    for name in set(top) - differ:
        tolerance = 1e-9 if dtype is np.float64 else 2e-5
        assert top[name] == pytest.approx(full[name], rel=tolerance, abs=tolerance, nan_ok=True)


def test_plain_loops_also_below_one_half() -> None:
    """A confidence of 0.3 still belongs to the predicted label."""
    random = np.random.default_rng(3)
    c, right = random.random(500).round(2), random.random(500) < 0.4
    found = measure(Claims.from_top_label(None, c, correct=right))
    bins: dict[int, list[tuple[float, bool]]] = {}
    nll = brier = 0.0
    for value, true in zip(c.tolist(), right.tolist(), strict=True):
        place = next(b for b in range(15) if value <= (b + 1) / 15)
        bins.setdefault(place, []).append((value, true))
        chance = value if true else 1 - value
        nll += -math.log(chance) if chance else math.inf
        brier += 2 * (value - true) ** 2
    gaps = [abs(sum(v for v, _ in b) - sum(t for _, t in b)) for b in bins.values()]
    assert found["ece"] == pytest.approx(sum(gaps) / 500)
    assert found["nll"] == pytest.approx(nll / 500)
    assert found["brier"] == pytest.approx(brier / 500)
    assert found["accuracy"] == pytest.approx(right.mean())


def test_scikit_learn_agrees() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.isotonic import IsotonicRegression
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    assert sklearn
    claims = top_of(drawn(800))
    c, right = claims.confidence, claims.correct
    found = measure(claims)
    assert found["nll"] == pytest.approx(log_loss(right, c))
    assert found["brier"] == pytest.approx(2 * brier_score_loss(right, c))
    assert found["auroc"] == pytest.approx(roc_auc_score(right, c))
    isotonic = CALIBRATORS["isotonic-top-label"].calibrator(floor=0).fit(claims)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(c, right)
    assert np.allclose(isotonic.transform(claims).confidence, theirs.predict(c))


@pytest.mark.parametrize("cut", [1, 65_535, 65_536, 65_537])
def test_states_of_parts_add_up_to_that_of_the_whole(cut: int) -> None:
    p = drawn(70_000)
    claims = top_of(p)
    whole, parts = accumulate(claims), accumulate(claims[:cut]) + accumulate(claims[cut:])
    block = assign_blocks(claims, blocks=50)
    blocked = accumulate(claims, block=block, blocks=50)
    into = accumulate(claims[:cut], block=block[:cut], blocks=50)
    into = accumulate(claims[cut:], block=block[cut:], into=into)
    for other in (parts, blocked.total(), into.total()):
        assert other.top_count.tolist() == whole.top_count.tolist()
        for name in whole.SUMS:
            assert np.allclose(getattr(other, name), getattr(whole, name)), name
    full = accumulate(p, block=block, blocks=50)
    assert full.top_correct.tolist() == blocked.top_correct.tolist()
    assert bootstrap_interval(ece, claims) == pytest.approx(bootstrap_interval(ece, p))


@ignore
@pytest.mark.parametrize(
    "name",
    # Shift-aware judges the top label of binary predictions, by signals of both classes.
    [n for n in TAKEN if not CALIBRATORS[n].calibrator.reads_about and n != "shift-aware"],
)
def test_every_map_of_claims_is_that_of_binary_predictions(name: str) -> None:
    """For a calibrator of one number: fitted on "came true?", as a binary classifier would be."""
    claims, new = top_of(drawn(900, seed=1)), top_of(drawn(300, seed=2))
    calibrator = CALIBRATORS[name].calibrator().fit(claims)
    mapped = calibrator.transform(new)
    assert (len(mapped), mapped.kind, calibrator.claims_) == (300, "top-label", 1.0)
    binary = Predictions.from_probabilities(claims.confidence, claims.correct)
    one_number = issubclass(CALIBRATORS[name].calibrator, TopLabel)
    plain = name.removesuffix("-top-label")
    if one_number and plain != name:
        options = calibrator.get_params()
        options.pop("keep_prediction")
        other = CALIBRATORS[plain].calibrator(**options)
    elif one_number:  # The spline has no form for each class.
        return
    else:
        other = CALIBRATORS[name].calibrator()
    expected = other.fit(binary).transform_scores(new.confidence, "probabilities")
    assert np.allclose(mapped.confidence, expected, atol=1e-12)


@ignore
@pytest.mark.parametrize(
    "name", [n for n in TAKEN if issubclass(CALIBRATORS[n].calibrator, TopLabel)]
)
def test_maps_of_the_top_label_are_those_of_the_full_probabilities(name: str) -> None:
    p, new = drawn(900, seed=1), drawn(300, seed=2)
    full = CALIBRATORS[name].calibrator(keep_prediction=False).fit(p)
    top = CALIBRATORS[name].calibrator().fit(top_of(p))
    mapped = full.transform(new).scores[np.arange(300), new.scores.argmax(axis=1)]
    assert np.allclose(top.transform(top_of(new)).confidence, mapped, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in TAKEN])
def test_other_maps_say_why_they_cannot(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} needs the scores of all classes; top-label"):
        CALIBRATORS[name].calibrator().fit(top_of(drawn(50)))


@ignore
@pytest.mark.parametrize("name", TAKEN)
def test_maps_are_saved_and_refuse_the_other_kind(name: str, tmp_path: Path) -> None:
    p = drawn(300)
    fitted = CALIBRATORS[name].calibrator().fit(top_of(p))
    fitted.save(tmp_path / "map.json")
    loaded = load_calibrator(tmp_path / "map.json")
    again = loaded.transform(top_of(p)).confidence
    assert np.array_equal(again, fitted.transform(top_of(p)).confidence)
    with pytest.raises(InputError, match="was fitted on top-label predictions, got scores of all"):
        loaded.transform(p)
    with pytest.raises(InputError, match="was fitted on top-label predictions, got positive"):
        loaded.transform(Claims.of_positive(drawn(50, 2)))
    fitted.fit(drawn(300, 2))
    assert fitted.claims_ == 0
    with pytest.raises(InputError, match="was fitted on scores of all classes, got top-label"):
        fitted.transform(top_of(p))


@ignore
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("right", [True, False])
def test_claims_that_all_came_true_do_not_become_certain(name: str, right: bool) -> None:
    """n right ones support (n + 1) / (n + 2), and n wrong ones 1 less that, at any confidence."""
    claims = Claims.from_top_label(None, np.linspace(0.1, 0.9, 50), correct=[right] * 50)
    mapped = CALIBRATORS[name].calibrator().fit(claims).transform(claims).confidence
    sure = mapped.mean() if right else 1 - mapped.mean()
    assert sure <= 51 / 52 + 1e-6


def test_venn_abers_intervals() -> None:
    claims = top_of(drawn(200))
    low, high = TopLabelVennAbers().fit(claims).interval(claims)
    both = VennAbers().fit(claims).interval(claims)
    assert np.allclose(low, both[0][:, 1])
    assert np.allclose(high, both[1][:, 1])
    assert (low <= high).all()


def test_what_needs_all_classes_says_so() -> None:
    claims = top_of(drawn(20))
    for metric in (classwise_ece, mean_iou, entity_f1, METRICS["adaptive_classwise_ece"].function):
        with pytest.raises(InputError) as caught:
            metric(claims)  # type: ignore[operator]
        assert "\n" not in str(caught.value)


def test_audit_of_top_labels() -> None:
    p = drawn(1500)
    p = Predictions.from_probabilities(p.scores, p.labels, groups={"site": np.arange(1500) % 2})
    claims = top_of(p)
    found, full = audit(claims), audit(p)
    for measure_ in found.measures:
        if measure_.name not in ("nll", "brier"):
            other = full[measure_.name]
            assert measure_.value == pytest.approx(other.value)
            assert measure_.low == pytest.approx(other.low)
    assert found.mistakes[0].row == full.mistakes[0].row
    assert (found.mistakes[0].predicted, found.mistakes[0].label) == (
        full.mistakes[0].predicted,
        full.mistakes[0].label,
    )
    by_name = {row.name: row for row in full.classes}
    for row in found.classes:
        assert row.confidence == pytest.approx(by_name[row.name].confidence)
        assert (row.labelled, row.predicted) == (
            by_name[row.name].labelled,
            by_name[row.name].predicted,
        )
    assert found.verdict[-1].startswith("Left out, as they need the scores of all classes: Class")
    parts = audit((claims[i : i + 400] for i in range(0, 1500, 400)), bootstrap=0)
    assert parts["ece"].value == pytest.approx(found["ece"].value)
    assert {r.name: r.predicted for r in parts.classes} == {
        r.name: r.predicted for r in found.classes
    }


def test_comparison_of_top_labels() -> None:
    valid, test = top_of(drawn(1200, seed=5)), top_of(drawn(1200, seed=6))
    found = compare(valid, test, ["temperature", "isotonic", "matrix"], bootstrap=100)
    assert [row.name for row in found.rows] == ["identity", "temperature", "isotonic"]
    assert found.skipped["matrix"].startswith("these need the scores of all classes")
    assert found["temperature"].ece < found["identity"].ece
    chosen = select_calibrator(valid)
    assert {"isotonic", "histogram", "venn-abers"} <= set(chosen.skipped)
    assert chosen.calibrator.transform(test).kind == "top-label"
    with pytest.raises(InputError, match="VALID holds top-label, but TEST probabilities"):
        compare(valid, drawn(100))
    with pytest.raises(InputError, match="hold the same examples"):
        compare(valid, valid)


def test_labels_of_any_kind_are_compared_as_text() -> None:
    for predicted, labels in [
        (["a", "b"], ["a", "c"]),
        ([1, 2], ["1", "3"]),
        (np.array([1.0, 2.0]), [1, 3]),
        (["1.0", "2"], [1, 3]),
        (np.array(["1", "2"], object), np.array([1.0, np.inf])),
    ]:
        assert Claims.from_top_label(predicted, [0.5, 0.5], labels).correct.tolist() == [
            True,
            False,
        ]


def test_rows_that_are_left_out() -> None:
    claims = Claims.from_top_label(
        ["a", "b", "a", None],
        [0.9, 0.8, 0.7, 0.6],
        ["a", None, "-100", -100],
        groups={"g": [1, 2, 3, 4]},
        signals={"s": [1.0, 2, 3, 4]},
    )
    assert (len(claims), claims.ignored, claims.unlabelled) == (1, 3, 1)
    assert (claims.groups["g"].tolist(), claims.signals["s"].tolist()) == ([1], [1.0])
    claims = Claims.from_top_label(None, [0.9, 0.8, 0.7], correct=["yes", "", -100])
    assert (len(claims), claims.ignored, claims.unlabelled) == (1, 2, 1)
    both = Claims.concatenate([claims, claims])
    assert (len(both), both.ignored, both.rows.tolist() if both.rows is not None else None) == (
        2,
        4,
        [0, 3],
    )


def test_parts_with_other_labels_are_joined_by_name() -> None:
    first = Claims.from_top_label(["a", "b"], [0.5, 0.6], ["b", "b"])
    second = Claims.from_top_label(["c", "a"], [0.7, 0.8], ["a", "c"])
    both = Claims.concatenate([first, second])
    texts = both.text("about"), both.text("truth")
    assert [list(text) for text in texts if text is not None] == [list("abca"), list("bbac")]
    assert len(top_label(both)[0]) == len(confidences(both)) == 4


@pytest.mark.parametrize(
    ("arguments", "options", "expected"),
    [
        ((["a"], [93.0], ["a"]), {}, "must be in 0..1, got 93 at row 0; divide percentages by"),
        ((["a"], [np.nan], ["a"]), {}, "must be in 0..1, got nan at row 0"),
        ((["a", "a"], [0.5, -0.1], ["a", "b"]), {}, "got -0.1 at row 1"),
        ((["a"], [0.5, 0.6], ["a"]), {}, "2 confidences and 1 predicted labels"),
        ((["a"], [0.5]), {}, "needs predicted and true labels, or correct="),
        ((None, [0.5], ["a"]), {}, "needs predicted and true labels, or correct="),
        (([None], [0.5], ["a"]), {}, "No predicted label at row 0"),
        ((None, [0.5]), {"correct": [2]}, "'correct' must hold true and false, .* got 2 at row 0"),
        ((None, [0.5]), {"correct": ["ok"]}, "'correct' must hold true .* got 'ok' at row 0"),
        ((None, [0.5]), {"correct": [1, 0]}, "'correct' has 2 values for 1 confidences"),
        ((None, [[0.5]]), {"correct": [1]}, r"numbers of shape \(n,\), got float64 of shape"),
        ((None, ["x"]), {"correct": [1]}, "must be numbers"),
    ],
)
def test_bad_arguments(arguments: tuple, options: dict, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Predictions.from_top_label(*arguments, **options)


def test_one_vs_rest_is_among_the_maps() -> None:
    assert any(issubclass(CALIBRATORS[name].calibrator, OneVsRest) for name in TAKEN)


def test_a_temperature_per_predicted_label() -> None:
    """One label is overconfident, the other is honest; a label that is new gets the common T."""
    rng = np.random.default_rng(0)
    odds, label = rng.normal(1, 1.5, 4000), rng.choice(["a", "b"], 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(-odds))
    given = 1 / (1 + np.exp(-np.where(label == "a", 3, 1) * odds))
    fitted = ClassTemperature().fit(Claims.from_top_label(label, given, correct=right))
    labels = fitted.fitted_on_["labels"]
    temperatures = dict(zip(labels, fitted.temperatures_.tolist(), strict=False))
    assert temperatures == pytest.approx({"a": 3, "b": 1}, rel=0.15)
    new = Claims.from_top_label(["b", "c", "a"], [0.9, 0.9, 0.9], correct=[1, 1, 1])
    expected = [temperatures["b"], fitted.temperature_, temperatures["a"]]
    found = fitted.transform(new).confidence
    assert np.log(found / (1 - found)) == pytest.approx(np.log(9) / np.array(expected))


@pytest.mark.parametrize("name", ["class-temperature", "shrunk-platt"])
def test_a_label_that_was_only_true_is_as_good_as_new(name: str) -> None:
    """Its place is behind those of the predicted labels; folds leave such labels, too."""
    rng = np.random.default_rng(0)
    given, predicted = rng.uniform(0.5, 1, 300), rng.choice(["a", "b"], 300)
    truth = np.where(rng.random(300) < given, predicted, rng.choice(["y", "z"], 300))
    fitted = CALIBRATORS[name].calibrator().fit(Claims.from_top_label(predicted, given, truth))
    assert sorted(fitted.fitted_on_["labels"]) == ["a", "b"]
    new = Claims.from_top_label(["z", "never seen"], [0.9, 0.9], correct=[1, 1])
    found = fitted.transform(new).confidence
    assert found[0] == found[1]
    known = Claims.from_top_label(["a"], [0.9], correct=[1])
    assert fitted.transform(known).confidence != found[0]


def test_a_predicted_nan_is_a_class_if_the_label_names_say_so():
    columns = (["nan", "cat", "nan"], [0.9, 0.8, 0.7], ["nan", "nan", "cat"])
    claims = Claims.from_top_label(*columns, label_names=["nan", "cat"])
    assert claims.correct.tolist() == [True, False, False]
    with pytest.raises(InputError, match="If a class is called 'nan', list it"):
        Claims.from_top_label(*columns)
