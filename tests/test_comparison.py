"""Comparing calibrators: honest choice on VALID, honest numbers on TEST."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from calibrant import InputError, Predictions, audit
from calibrant.calibrators import CALIBRATORS, CalibrationWarning, Spline, Temperature
from calibrant.comparison import compare, select_calibrator
from calibrant.comparison.cross_validation import (
    example_brier,
    example_nll,
    make_folds,
    out_of_fold,
)
from calibrant.comparison.data_difference import describe_difference
from calibrant.comparison.recommendation import Differences, choose
from calibrant.comparison.selection import calibrator_names
from calibrant.experiments.outcome import choose_calibrator
from calibrant.metrics import accuracy, adaptive_ece, brier, ece, mean_confidence, nll


def sample(n=2000, classes=4, scale=3.0, seed=0, bias=None, **options):
    """Logits that would be honest at scale 1 and without a bias."""
    rng = np.random.default_rng(seed)
    honest = 2 * rng.normal(size=(n, classes))
    noise = rng.gumbel(size=(n, classes))  # argmax of logits + Gumbel noise samples the softmax.
    logits = scale * honest + (0 if bias is None else np.asarray(bias))
    return Predictions.from_logits(logits, (honest + noise).argmax(axis=1), **options)


def test_overconfident_model_gets_temperature_not_a_flexible_map():
    found = compare(sample(), sample(seed=1))
    assert found.recommended == "temperature"
    assert found.reason.startswith("temperature: lowers the cross-validated NLL by")
    assert found.reason.endswith(".")
    row = found["temperature"]
    assert row.ece < 0.03 < found["identity"].ece
    assert row.accuracy_change == 0
    assert found.fitted["temperature"].temperature_ == pytest.approx(3, rel=0.1)


def test_honest_model_is_left_as_it_is():
    found = compare(sample(scale=1), sample(scale=1, seed=1))
    assert found.recommended == "identity"
    assert "unchanged" in found.reason


def test_numbers_are_those_of_the_fitted_map_on_test():
    valid, test = sample(), sample(seed=1)
    row = compare(valid, test, ["temperature"])["temperature"]
    mapped = Temperature().fit(valid).transform(test)
    assert row.nll == pytest.approx(nll(mapped))
    assert row.brier == pytest.approx(brier(mapped))
    assert row.ece == pytest.approx(ece(mapped))
    assert row.adaptive_ece == pytest.approx(adaptive_ece(mapped))
    assert row.accuracy == accuracy(mapped)
    assert row.ece_low <= row.ece <= row.ece_high
    assert row.fit_seconds > 0


def test_test_data_have_no_part_in_the_choice():
    """The labels of TEST, however wrong, change the table but not the recommendation."""
    valid, test = sample(), sample(seed=1)
    wrong = Predictions.from_logits(test.scores, test.scores.argmin(axis=1))
    some = ["temperature", "vector", "histogram"]
    fair, unfair = compare(valid, test, some), compare(valid, wrong, some)
    assert (fair.recommended, fair.reason) == (unfair.recommended, unfair.reason)
    assert [r.valid_nll for r in fair.rows] == [r.valid_nll for r in unfair.rows]
    assert unfair["identity"].accuracy < fair["identity"].accuracy


def test_out_of_fold_equals_a_plain_loop():
    valid = sample(200)
    folds = make_folds(valid, 5, seed=3)
    expected = np.empty(len(valid))
    for number in range(5):
        inside = folds.fold == number
        fitted = Temperature().fit(valid[~inside])
        probabilities = fitted.transform(valid[inside]).probabilities()
        expected[inside] = -np.log(probabilities[np.arange(inside.sum()), valid.labels[inside]])
    got = example_nll(out_of_fold(Temperature(), valid, folds))
    np.testing.assert_allclose(got, expected[np.argsort(folds.fold, kind="stable")])


def test_folds_in_which_a_map_falls_back_are_joined_to_the_others():
    """Where a calibrator falls back it leaves logits, and elsewhere it gives probabilities."""
    valid = sample(200, scale=1, seed=3)
    folds = make_folds(valid, 5, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = [Spline().fit(valid[folds.fold != number]) for number in range(5)]
    assert len({each.fell_back_ for each in fitted}) == 2
    expected = [
        each.transform(valid[folds.fold == number]).probabilities()
        for number, each in enumerate(fitted)
    ]
    found = out_of_fold(Spline(), valid, folds)
    assert found.kind == "probabilities"
    np.testing.assert_array_equal(found.scores, np.concatenate(expected))


def test_sentences_stay_together_and_folds_are_even():
    sentence = np.repeat(np.arange(300), 7)
    folds = make_folds(sample(2100, groups={"sentence": sentence}), 5, seed=0)
    for s in range(300):
        assert len(set(folds.fold[sentence == s])) == 1
    sizes = np.bincount(folds.fold)
    assert len(sizes) == 5
    assert sizes.min() > 300
    alone = make_folds(sample(100), 5, seed=0)
    assert np.bincount(alone.fold).tolist() == [20] * 5
    assert (make_folds(sample(100), 5, seed=1).fold != alone.fold).any()
    assert make_folds(sample(3), 5, seed=0).count == 3


@pytest.mark.parametrize(("count", "whole"), [(20, True), (19, False), (1, False)])
def test_batches_stay_together_if_they_are_many(count: int, whole: bool) -> None:
    """Calibrators with signals read means over a batch, which a part of it does not have."""
    random = np.random.default_rng(0)
    labels, batch = random.integers(0, 3, 400), random.permutation(400) % count
    p = Predictions.from_logits(random.normal(size=(400, 3)), labels, groups={"batch": batch})
    folds = make_folds(p, 5, seed=0)
    for values in (folds.fold, folds.block):
        alone = [len(np.unique(values[batch == b])) == 1 for b in range(count)]
        assert all(alone) if whole else not any(alone)
    assert folds.count == 5


def test_neighbours_are_held_out_together():
    """Paraphrases by one person and sentences of one document lie next to each other."""
    sentence = np.repeat(np.arange(300), 2)
    folds = make_folds(sample(600, groups={"sentence": sentence}), 5, seed=0)
    assert (np.diff(folds.fold) != 0).sum() < 50  # Ten runs per fold.
    by_class = sample(1000)
    by_class = by_class[np.argsort(by_class.labels, kind="stable")]
    folds = make_folds(by_class, 5, seed=0)
    for k in range(4):
        own = folds.fold[by_class.labels == k]
        assert set(own) == set(range(5))
        assert (np.diff(own) != 0).sum() <= 5


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 11, 30])
@pytest.mark.parametrize("classes", [2, 3, 9])
def test_no_fold_is_empty(n, classes):
    for seed in range(20):
        labels = np.random.default_rng(seed).integers(0, classes, n)
        p = Predictions.from_logits(np.zeros((n, classes)), labels)
        folds = make_folds(p, 5, seed)
        assert folds.count == min(5, n)
        assert (np.bincount(folds.fold, minlength=folds.count) > 0).all(), labels
        grouped = Predictions.from_logits(
            np.zeros((n, classes)), labels, groups={"sentence": np.arange(n) % 4}
        )
        folds = make_folds(grouped, 5, seed)
        assert (np.bincount(folds.fold, minlength=folds.count) > 0).all()


def test_a_temperature_needs_no_significance_over_unchanged_scores():
    found = select_calibrator(sample(60, scale=1.4), bootstrap=200)
    gain = found.candidates["identity"].nll - found.candidates["temperature"].nll
    assert 0 < gain.mean() < 2 * gain.std() / np.sqrt(60)
    assert found.calibrator.name == "temperature"


def test_more_numbers_than_examples_are_not_considered():
    found = select_calibrator(sample(100, classes=11), ["temperature", "dirichlet", "matrix"])
    assert "Not considered, with more numbers to learn than examples: dirichlet and matrix." in (
        found.reason
    )
    assert set(found.candidates) == {"identity", "temperature", "dirichlet", "matrix"}
    assert "Not considered" not in select_calibrator(sample(132, classes=11), ["matrix"]).reason


def test_paired_bootstrap_equals_a_plain_loop():
    rng = np.random.default_rng(0)
    block = rng.integers(0, 12, 50)
    scores = rng.random((2, 50))
    differences = Differences(scores, block, replicates=4000, seed=0)
    blocks = [np.flatnonzero(block == b) for b in np.unique(block)]
    gains = []
    for _ in range(4000):
        rows = np.concatenate([blocks[b] for b in rng.integers(0, len(blocks), len(blocks))])
        gains.append(scores[0, rows].mean() - scores[1, rows].mean())
    got = differences.gain(over=0, of=1)
    assert got.value == pytest.approx(scores[0].mean() - scores[1].mean())
    np.testing.assert_allclose([got.low, got.high], np.quantile(gains, [0.025, 0.975]), atol=0.01)


def chosen(*means, noise=0.0):
    rng = np.random.default_rng(0)
    scores = np.array(means)[:, None] + noise * rng.normal(size=(len(means), 400))
    names = ["identity", "one", "two", "three"][: len(means)]
    return choose(names, Differences(scores, np.arange(400), 500, seed=0))


def test_choice_and_reason():
    assert chosen(1.0, 0.5, 0.5)[0] == "one"  # The simplest wins ties.
    assert chosen(1.0, 0.5, 0.4)[0] == "two"  # But not over a significant gain.
    name, reason = chosen(1.0, 0.5, 0.499, noise=0.1)
    assert name == "one"
    assert reason.startswith("one: lowers the cross-validated NLL by 0.")
    name, reason = chosen(1.0, 0.99, 1.0, noise=0.5)
    assert name == "identity"
    assert "unchanged" in reason
    name, reason = chosen(1.0, 1.2, 1.1)
    assert (name, "no calibrator lowers" in reason) == ("identity", True)
    assert "every simpler one is significantly worse" in chosen(1.0, 0.5, 0.4)[1]


def test_many_equal_maps_seldom_beat_each_other():
    """Twelve calibrators of equal worth: the simplest is taken in about 95 % of all samples."""
    names = ["identity", *(str(i) for i in range(11))]
    wins = 0
    for seed in range(200):
        scores = np.random.default_rng(seed).normal(size=(12, 150))
        wins += choose(names, Differences(scores, np.arange(150), 300, seed))[0] == "identity"
    assert 180 <= wins <= 199


def test_every_map_has_a_row_or_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)  # They are notes, not warnings.
        found = compare(sample(300), sample(300, seed=1), bootstrap=100)
    assert {row.name for row in found.rows} | set(found.skipped) == set(CALIBRATORS)
    assert [row.name for row in found.rows] == [n for n in CALIBRATORS if n not in found.skipped]
    assert set(found.skipped) == {"type-temperature", "position-temperature", "shift-aware"}
    assert "BIO" in found.skipped["type-temperature"] or "label_names" in str(found.skipped)


def test_ner_maps_run_on_tags_in_sentences_and_large_matrices_say_why_not():
    groups = {"sentence": np.arange(300) // 6, "position": np.arange(300) % 6}
    options = {"label_names": ("O", "B-PER", "I-PER", "B-LOC"), "groups": groups}
    found = compare(
        sample(300, **options),
        sample(300, seed=1, **options),
        ["type-temperature", "position-temperature"],
        bootstrap=100,
    )
    assert not found.skipped
    assert len(found.rows) == 3
    many = sample(400, classes=300)
    found = compare(many, many, ["temperature", "matrix"], bootstrap=100, same_data=True)
    assert "90,300" in found.skipped["matrix"]


def test_flexible_map_wins_where_it_helps_significantly():
    """One class is far too high, which no temperature mends."""
    bias = [4.0, 0, 0, 0]
    valid, test = sample(scale=1, bias=bias), sample(scale=1, bias=bias, seed=1)
    found = compare(valid, test, ["temperature", "vector", "isotonic"], bootstrap=200)
    assert found.recommended == "vector"
    assert found["vector"].nll < found["temperature"].nll


def test_methods_are_compared_with_identity_in_the_order_of_the_table():
    found = compare(sample(300), sample(300, seed=1), ["temperature"], bootstrap=100)
    assert [row.name for row in found.rows] == ["identity", "temperature"]


def test_json_document():
    seen = []
    found = compare(
        sample(300), sample(300, seed=1), ["temperature"], bootstrap=100, progress=seen.append
    )
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["recommended"] == found.recommended
    assert document["calibrators"][1]["name"] == "temperature"
    assert document["calibrators"][1]["ece"] == found["temperature"].ece
    assert document["settings"]["folds"] == 5
    assert seen == ["identity", "temperature"]


def test_probabilities_and_zero_probabilities():
    valid = sample(500)
    probabilities = np.eye(4)[valid.scores.argmax(axis=1)]
    sure = Predictions.from_probabilities(probabilities, valid.labels)
    assert np.isfinite(example_nll(sure)).all()
    found = compare(sure, sure, ["temperature"], bootstrap=100, same_data=True)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.recommended != "identity"


def test_infinite_numbers_are_text_in_json():
    found = compare(sample(300), sample(300, seed=1), ["temperature"], bootstrap=100)
    infinite = replace(found, rows=(replace(found.rows[0], metrics={"nll": np.inf}, ece_low=None),))
    assert infinite.to_dict()["calibrators"][0]["nll"] == "inf"


def test_same_seed_same_answer():
    valid, test = sample(400), sample(400, seed=1)
    first, second = (compare(valid, test, ["temperature"], seed=5, bootstrap=200) for _ in "ab")
    assert first.reason == second.reason
    assert first["temperature"].ece_low == second["temperature"].ece_low


def test_clear_errors():
    valid = sample(50)
    with pytest.raises(InputError, match="Did you mean 'temperature'"):
        compare(valid, valid, ["temprature"])
    for names in ([Temperature()], [Temperature], [None]):
        with pytest.raises(InputError, match="Expected the name of a calibrator"):
            compare(sample(), sample(seed=1), names)
    assert calibrator_names("class-temperature") == ["identity", "class-temperature"]
    with pytest.raises(InputError, match="VALID has 4 classes, but TEST has 3"):
        compare(valid, sample(50, classes=3))
    with pytest.raises(InputError, match="TEST has no labelled examples"):
        compare(valid, valid[:0])
    with pytest.raises(InputError, match="class 1 is 'b' in VALID and 'x' in TEST"):
        compare(sample(50, label_names="abcd"), sample(50, label_names="axcd"))
    with pytest.raises(InputError, match="folds ≥ 2, got 1"):
        compare(valid, valid, folds=1, same_data=True)
    with pytest.raises(InputError, match="at least 100 bootstrap"):
        compare(valid, valid, bootstrap=10)
    with pytest.raises(InputError, match="at least 2 independent examples"):
        compare(sample(50, groups={"sentence": np.zeros(50, int)}), valid, same_data=True)


def test_the_same_examples_are_refused_unless_asked_for():
    valid = sample(200)
    order = np.random.default_rng(0).permutation(200)
    for test in (valid, valid[order]):
        with pytest.raises(InputError, match=r"VALID and TEST hold the same examples.*--force"):
            compare(valid, test, ["temperature"], bootstrap=100)
    assert compare(valid, valid, ["temperature"], bootstrap=100, same_data=True).rows
    some = np.append(np.arange(199), 0)  # One row is another.
    assert compare(valid, valid[some], ["temperature"], bootstrap=100).rows


def test_few_different_rows_in_another_order_are_other_examples():
    scores, labels = np.tile([0.2, 0.9], 100), np.tile([0, 1, 1, 1], 50)
    valid = Predictions.from_probabilities(scores, labels)
    test = Predictions.from_probabilities(scores[::-1], labels[::-1])
    assert compare(valid, test, ["temperature"], bootstrap=100).rows


def test_the_row_of_identity_says_what_an_audit_says():
    rng = np.random.default_rng(0)
    p = np.tile([[1.0, 0.0], [0.0, 1.0], [0.4, 0.6]], (100, 1))
    labels = np.where(rng.random(300) < 0.8, p.argmax(axis=1), p.argmin(axis=1))
    given = Predictions.from_probabilities(p, labels)
    with np.errstate(divide="ignore"):
        found = compare(given, given, ["temperature"], same_data=True)
        assert found["identity"].nll == nll(given) == np.inf
    assert found["identity"].brier == pytest.approx(brier(given))
    assert np.isfinite([found["temperature"].nll, found["identity"].valid_nll]).all()
    assert found.to_dict()["calibrators"][0]["nll"] == "inf"


def test_votes_of_0_count_alike_in_every_row_of_the_table():
    """A calibrator that fell back is identity, and 0 counts as half a vote, not as 87 nats."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.7), 600)
    votes = np.array([rng.multinomial(10, row) for row in truth]) / 10
    labels = np.array([rng.choice(3, p=row) for row in truth])
    valid, test = (Predictions.from_probabilities(votes[i::2], labels[i::2]) for i in (0, 1))
    found = compare(valid, test, ["temperature"], bootstrap=200)
    fitted = CALIBRATORS["identity"].calibrator()
    with pytest.warns(CalibrationWarning, match="taken as 0.05"):
        fitted.fit(valid)
    assert found["identity"].valid_nll == pytest.approx(fitted.fitted_on_["nll_before"])
    assert found["identity"].valid_nll < 2
    seen = {m.name: (m.low, m.high) for m in audit(test, bootstrap=200).measures}
    row = found["identity"]
    assert (row.ece_low, row.ece_high) == pytest.approx(seen["ece"])


def test_one_rule_for_compare_fit_and_train():
    valid, test = sample(1200), sample(400, seed=1)
    found = select_calibrator(valid)
    assert compare(valid, test).recommended == found.calibrator.name
    assert compare(valid, test).reason == found.reason
    assert found.calibrator.fitted_on_["n"] == len(valid)
    kept = select_calibrator(valid, keep_predictions=True)
    assert choose_calibrator("auto", valid).name == kept.calibrator.name


def test_only_maps_that_keep_predictions():
    valid = sample(3000, bias=[2.0, 0, 0, 0])  # Temperature cannot mend it, vector scaling can.
    free = select_calibrator(valid)
    kept = select_calibrator(valid, keep_predictions=True)
    assert not CALIBRATORS[free.calibrator.name].calibrator.keeps_argmax
    assert all(CALIBRATORS[name].calibrator.keeps_argmax for name in kept.candidates)
    mapped = kept.calibrator.transform(valid).probabilities().argmax(axis=1)
    assert (mapped == valid.scores.argmax(axis=1)).all()
    assert calibrator_names(["vector"], keep_predictions=True) == ["identity"]


def test_a_calibrator_that_spoils_the_brier_score_is_skipped():
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=(3, 500))
    nll_of = Differences(np.array([[1.0], [0.5], [0.49]]) + noise, np.arange(500), 1000, 0)
    spoiled = Differences(np.array([[0.3], [0.4], [0.4]]) + noise, np.arange(500), 1000, 0)
    fine = Differences(np.array([[0.3], [0.4], [0.2]]) + noise, np.arange(500), 1000, 0)
    names = ["identity", "a", "b"]
    assert choose(names, nll_of)[0] == "b"
    assert choose(names, nll_of, fine)[0] == "b"
    assert choose(names, nll_of, spoiled)[0] == "identity"


def test_the_log_loss_is_split_into_calibration_and_refinement():
    p = sample(4000, scale=3.0)
    found = select_calibrator(p, ["temperature", "vector"], split=True)
    parts = {name: (c.nll.mean(), c.calibration) for name, c in found.candidates.items()}
    total, calibration = parts["identity"]
    assert calibration == pytest.approx(total - parts["temperature"][0], abs=1e-3)
    assert parts["temperature"][1] < 0.002
    biased = sample(4000, bias=[2.0, 0, 0, 0])
    found = select_calibrator(biased, ["temperature", "vector"], split=True)
    refinement = {name: c.nll.mean() - c.calibration for name, c in found.candidates.items()}
    # One number for all classes adds nothing to what the scores say; weights of classes do.
    assert refinement["temperature"] == pytest.approx(refinement["identity"], abs=0.005)
    assert refinement["vector"] < refinement["identity"] - 0.02


def test_example_scores_equal_the_metrics():
    p = sample(700)
    assert example_brier(p).mean() == pytest.approx(brier(p))
    assert example_nll(p).mean() == pytest.approx(nll(p))
    folds = make_folds(p, 5, seed=1)
    ordered = folds.in_order()
    assert (np.diff(ordered.fold) >= 0).all()
    assert (np.bincount(ordered.block) == np.bincount(folds.block)).all()


def test_a_faultless_valid_does_not_praise_the_map_that_claims_most():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(460, 3)) + 2.5 * np.eye(3)[rng.integers(0, 3, 460)]
    labels = (2.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # Truly too shy.
    right = np.flatnonzero(logits.argmax(axis=1) == labels)[:60]
    rest = np.setdiff1d(np.arange(460), right)
    valid, test = (Predictions.from_logits(logits[i], labels[i]) for i in (right, rest))
    found = select_calibrator(valid, bootstrap=200)
    assert found.reason.endswith("fit on more or harder examples.")
    assert nll(found.calibrator.transform(test)) < 1.5 * nll(test)
    with pytest.warns(CalibrationWarning, match="every prediction is right"):
        assert nll(Temperature().fit(valid).transform(test)) < 1.5 * nll(test)
    # Ten thousand that are right do tell: more than the scores claim, and less than certainty.
    many = Predictions.from_logits(np.tile([[1.0, 0.0]], (10_000, 1)), np.zeros(10_000, int))
    chosen = select_calibrator(many, bootstrap=200).calibrator
    assert 0.999 < mean_confidence(chosen.transform(many)) <= 10_001 / 10_002 + 1e-9


def test_certain_predictions_that_are_all_right_do_not_keep_their_certainty():
    """Of two fits without a mistake, the Brier score alone would keep a confidence of 1."""
    labels = np.arange(400) % 3
    valid = Predictions.from_probabilities(np.eye(3)[labels], labels)
    found = select_calibrator(valid, ["temperature"], bootstrap=200)
    assert found.calibrator.name == "temperature"
    claims = Predictions.from_top_label(labels, np.ones(400), labels)
    found = select_calibrator(claims, ["temperature"], bootstrap=200)
    assert found.calibrator.name == "temperature"


def test_the_reason_names_the_brier_score_where_that_decides():
    """A gain that chance cannot explain is not called chance."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(4, 500))
    names = ["identity", "a", "b", "c"]

    def differences(*means: float) -> Differences:
        return Differences(np.array(means)[:, None] + noise, np.arange(500), 1000, 0)

    lower, spoiled = differences(1.0, 0.7, 0.6, 0.5), differences(0.3, 0.4, 0.4, 0.4)
    name, reason = choose(names, lower, spoiled)
    assert name == "identity"
    assert reason.endswith("but raises the Brier score by more than chance.")
    assert "by chance" not in reason
    # "c" raises it; "b" beats "a".
    name, reason = choose(names, lower, differences(0.3, 0.2, 0.2, 0.4))
    assert name == "b"
    assert reason.endswith("but raises the Brier score by more than chance.")


def test_results_are_easy_to_look_at():
    logits = np.random.default_rng(0).normal(size=(400, 3))
    p = Predictions.from_logits(9 * logits, np.arange(400) % 3)
    found = compare(p[:200], p[200:], ["temperature"], bootstrap=100)
    assert repr(found) == "<Comparison of 2 calibrators: temperature is recommended>"
    assert str(found) == f"Recommended: {found.reason}"
    assert repr(select_calibrator(p, ["temperature"])) == (
        "<Selection of temperature among 2 calibrators>"
    )


def test_no_intervals_without_a_bootstrap_and_the_same_choice():
    data = sample(400), sample(400, seed=1)
    found = compare(*data, ["temperature", "vector"], bootstrap=0)
    assert [row.ece_low for row in found.rows] == [None] * 3
    usual = compare(*data, ["temperature", "vector"])
    assert (found.reason, found["vector"].ece) == (usual.reason, usual["vector"].ece)


def test_test_data_that_differ_from_validation_are_named():
    found = compare(sample(), sample(seed=1), ["temperature"], bootstrap=0)
    assert found.difference is None
    harder = sample(seed=1)
    labels = np.where(np.arange(2000) % 10, harder.labels, (harder.labels + 1) % 4)
    harder = Predictions.from_logits(harder.scores, labels)
    shown = compare(sample(), harder, ["temperature"], bootstrap=0).difference
    both = (f"{100 * accuracy(p):.1f} %" for p in (sample(), harder))
    assert shown.startswith(f"VALID and TEST differ by more than chance in accuracy ({next(both)}")
    assert next(both) in shown
    assert "confidence" not in shown
    modest = Predictions.from_logits(0.8 * sample(seed=2).scores, sample(seed=2).labels)
    assert "mean confidence" in compare(sample(), modest, ["identity"], bootstrap=0).difference


def test_chance_makes_the_data_seem_to_differ_in_one_of_a_hundred():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(500):  # Words of a sentence are alike: rows are not independent.
        sets = []
        for sentences in (40, 150):
            level = np.repeat(rng.uniform(0.5, 1, sentences), 8)
            groups = {"sentence": np.repeat(np.arange(sentences), 8)}
            labels = np.repeat(rng.random(sentences) < 0.8, 8).astype(int)
            sets.append(Predictions.from_probabilities(level, labels, groups=groups))
        alarms += describe_difference(*sets) is not None
    assert alarms <= 14  # 5 are expected.
    assert describe_difference(sets[0][:80], sets[1]) is None  # Ten sentences are too few.


@pytest.mark.parametrize(("few", "many"), [(20, 5000), (200, 5000)])
def test_few_right_predictions_do_not_differ_from_many_that_are_nearly_all_right(few, many):
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(300):
        sets = []
        for size in (few, many):
            level = 0.5 + 0.5 * rng.beta(50, 1, size)
            labels = (rng.random(size) < level).astype(int)
            sets.append(Predictions.from_probabilities(level, labels))
        alarms += describe_difference(*sets) is not None
    assert alarms <= 9  # 3 are expected.
    wrong = Predictions.from_probabilities(level[:200], labels[:200] & (np.arange(200) % 9 > 0))
    assert "accuracy" in describe_difference(wrong, sets[1])


def test_a_gain_within_chance_is_named():
    """The interval of the temperature's gain has 0 in it, and the recommendation says so."""
    gains = np.where(np.arange(400) % 2, 1.05, -1.0)
    scores = np.stack([np.full(400, 2.0), 2.0 - gains])
    name, reason = choose(
        ("identity", "temperature"), Differences(scores, np.arange(400), 500, seed=0)
    )
    assert name == "temperature"
    assert "which chance can explain, but one number hardly overfits" in reason
    scores[1] -= 0.5
    assert (
        "chance"
        not in choose(
            ("identity", "temperature"), Differences(scores, np.arange(400), 500, seed=0)
        )[1]
    )
