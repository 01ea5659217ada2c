"""The audit as a library call: the right numbers, whole or streamed, and plain words."""

import json
import math
from functools import partial

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.auditing import audit
from calibrant.claims import Claims
from calibrant.files import stream
from calibrant.metrics import (
    accumulate,
    accuracy,
    adaptive_classwise_ece,
    adaptive_ece,
    aurc,
    auroc,
    bootstrap_interval,
    classwise_ece,
    coverage_at_risk,
    debiased_rms_ece,
    ece,
    entity_f1,
    entity_state,
    nll,
    smooth_ece,
    token_f1,
    without_outside,
)


def overconfident(n=600, classes=4, seed=0, **more):
    random = np.random.default_rng(seed)
    logits = 2 * random.normal(size=(n, classes))
    honest = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
    labels = (honest.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    return Predictions.from_logits(logits, labels, **more)


def tagged(sentences=80, words=9, seed=0):
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    groups = {"sentence": np.repeat(np.arange(sentences), words)}
    return overconfident(sentences * words, 5, seed, label_names=names, groups=groups)


def values(found):
    return {m.name: m.value for m in found.measures}


def test_the_measures_are_the_metrics():
    p = overconfident()
    measured = values(audit(p, bootstrap=0))
    for metric in (accuracy, ece, classwise_ece, nll, adaptive_ece, smooth_ece, auroc, aurc):
        assert measured[metric.__name__] == pytest.approx(metric(p), abs=1e-12), metric
    assert measured["adaptive_classwise_ece"] == pytest.approx(adaptive_classwise_ece(p))


def test_an_audit_is_easy_to_look_at():
    p = tagged()
    found = audit(p, bootstrap=100)
    assert found["ece"].value == pytest.approx(ece(p))
    assert found["entity_f1"].value == pytest.approx(entity_f1(p))
    with pytest.raises(KeyError, match="'nothing'; known: "):
        found["nothing"]
    assert repr(found) == f"<Audit of 720 examples, 5 classes: ECE {ece(p):.4f}>"
    lines = str(found).splitlines()
    assert lines[: len(found.verdict)] == list(found.verdict)
    shown = next(line.split() for line in lines if line.startswith("ECE   "))
    assert shown[1:] == [f"{ece(p):.4f}", *found["ece"].interval_text.split()]


def test_a_stream_has_the_intervals_of_the_whole_where_every_word_is_a_block():
    """Blocks of words were numbered again in each chunk, and those of tokens were not."""
    p = tagged(120)
    whole, streamed = (
        audit(s, keep_together=None, bootstrap=50).entities for s in (p, p.chunks(100))
    )
    for mine, theirs in zip(whole.measures, streamed.measures, strict=True):
        assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high)), mine.name


def test_a_stream_gives_what_the_whole_gives():
    p = tagged()
    whole = audit(p, bootstrap=50)
    for rows in (1, 7, 100):
        streamed = audit(p.chunks(rows), bootstrap=50)
        for mine, theirs in zip(whole.measures, streamed.measures, strict=True):
            assert mine.name == theirs.name
            np.testing.assert_allclose(
                [mine.value, mine.low or 0, mine.high or 0],
                [theirs.value, theirs.low or 0, theirs.high or 0],
                atol=1e-9,
            )
        np.testing.assert_allclose(
            [m.value for m in whole.entities.measures],
            [m.value for m in streamed.entities.measures],
            atol=1e-9,
        )
        assert [m.row for m in whole.mistakes] == [m.row for m in streamed.mistakes]


def test_intervals_hold_their_value_and_follow_the_groups():
    p = overconfident()
    doubled = Predictions.from_logits(
        np.repeat(p.scores, 2, axis=0),
        np.repeat(p.labels, 2),
        groups={"sentence": np.repeat(np.arange(len(p)), 2)},
    )
    single, twice, blind = (
        {m.name: m for m in audit(q, bootstrap=300, keep_together=by).measures}["accuracy"]
        for q, by in ((p, "auto"), (doubled, "auto"), (doubled, None))
    )
    assert single.low < single.value < single.high
    # Copies carry no information: by sentence the interval is as wide as before, blindly narrower.
    assert twice.high - twice.low == pytest.approx(single.high - single.low, rel=0.25)
    assert blind.high - blind.low < 0.85 * (single.high - single.low)


def test_entities():
    p = tagged()
    view = audit(p, bootstrap=0).entities
    measured = {m.name: m.value for m in view.measures}
    assert measured["entity_f1"] == pytest.approx(entity_f1(p))
    assert measured["token_f1"] == pytest.approx(token_f1(p))
    assert measured["entity_ece"] == pytest.approx(ece(entity_state(p)))
    assert measured["ece_without_o"] == pytest.approx(ece(without_outside(p)))
    assert measured["apcr"] == pytest.approx(entity_f1(p) ** 2 / ece(p))
    assert {row.name for row in view.types} == {"PER", "LOC"}
    assert sum(row.predicted for row in view.types) == int(view.state.n)


def test_no_entities_without_tags():
    assert audit(overconfident(label_names=list("abcd")), bootstrap=0).entities is None


def test_verdict_of_an_overconfident_model():
    sentences = " ".join(audit(overconfident(2000), bootstrap=0).verdict)
    assert "Overconfident by" in sentences
    assert "more than chance" in sentences


def test_verdict_of_an_honest_model():
    p = overconfident(2000)
    honest = audit(p.with_scores(p.scores / 2, "logits"), bootstrap=0)
    assert "No reason to doubt" in honest.verdict[0]


def test_few_examples_are_not_called_trustworthy():
    p = Predictions.from_probabilities([0.6] * 3, [0] * 3)  # Claims 60 %, is never right.
    first = audit(p, bootstrap=0).verdict[0]
    assert first.startswith("Too few examples to tell: an ECE of 60.0 points")


def test_furthest_off_is_the_class_with_the_largest_gap():
    # 'a' is a little off very often, 'b' far off in fewer predictions.
    p = Predictions.from_probabilities(
        [[0.9, 0.1]] * 1000 + [[0.1, 0.9]] * 100,
        [0] * 970 + [1] * 30 + [1] * 40 + [0] * 60,
        label_names=["a", "b"],
    )
    found = audit(p, bootstrap=0)
    assert "'b', claimed 90.0 % and right 40.0 %" in found.verdict[0]
    assert found.classes[0].name == "a"  # The table is by what a class costs in all.


def test_furthest_off_is_no_bin_of_a_group_whose_other_bins_are_not_compared():
    """'b' is off as a whole, so its bins are no findings: a bin of 'a' was "furthest off"."""
    scores = np.array([0.65] * 100 + [0.95] * 100 + [0.65] * 400 + [0.95] * 400)
    right = [[1] * 85 + [0] * 15, [1] * 75 + [0] * 25, [1] * 260 + [0] * 140, [1] * 240 + [0] * 160]
    site = np.array(["a"] * 200 + ["b"] * 800)
    p = Predictions.from_probabilities(
        np.stack([scores, 1 - scores], axis=1), 1 - np.concatenate(right), groups={"site": site}
    )
    found = audit(p, bootstrap=0)
    of = {finding.name: finding for finding in found.findings if finding.kind == "group"}
    assert of["site = a"].where == "93.3 to 100 %"  # Its gap is 20 points; 35 in that bin of 'b'.
    assert abs(of["site = a"].gap) > abs(of["site = b"].gap)
    assert "Furthest off: 'site = b', claimed 80.0 % and right 62.5 %" in found.verdict[2]


def test_names_are_shown_on_one_line_of_a_sane_length():
    scores = [[0.9, 0.1]] * 50
    for name in ("two\nlines\x1b[31m", "x" * 10_000):
        p = Predictions.from_probabilities([*scores, [0.1, 0.9]], [1] * 51, label_names=[name, "b"])
        sentence = next(s for s in audit(p, bootstrap=0).verdict if "Furthest" in s)
        assert sentence.isprintable()
        assert len(sentence) < 160


def test_long_text_in_a_group():
    texts = ["w" * 5000 if row % 7 else "short" for row in range(60)]
    labels = [0, 1] * 30
    p = Predictions.from_probabilities(
        [0.9] * 60, labels, groups={"sentence": np.array(texts, object)}
    )
    assert p.groups["sentence"].dtype == object
    found = audit(p, bootstrap=20)
    assert {m.groups["sentence"] for m in found.mistakes} <= set(texts)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"seed": -1}, "seed from 0 to 2⁶³ − 1, got -1"),
        ({"bootstrap": -1}, "at least 20 bootstrap replicates, got -1"),
        ({"bootstrap": 1}, "at least 20 bootstrap replicates, got 1"),
        ({"bootstrap": 20, "level": 0.99}, "at least 100 bootstrap replicates, got 20"),
        ({"level": 95}, "between 0 and 1, got 95"),
        ({"bins": 10**9}, "at most 10,000 bins"),
    ],
)
def test_settings_are_checked_before_the_data_are_read(settings, says):
    def unread():
        raise AssertionError("read too early")
        yield

    with pytest.raises(InputError, match=says):
        audit(unread(), **settings)


def test_verdict_of_an_underconfident_model():
    p = overconfident(2000)
    assert "Underconfident" in audit(p.with_scores(p.scores / 8, "logits"), bootstrap=0).verdict[0]


def test_ignored_examples_are_counted():
    p = Predictions.from_probabilities([0.9, 0.8, 0.7], [1, -100, 0])
    found = audit(p, bootstrap=0)
    assert found.provenance["ignored"] == 1
    assert any("1 example labelled −100 was" in s for s in found.verdict)


def test_mistakes_are_the_most_confident_ones():
    p = overconfident()
    state = audit(p, bootstrap=0, mistakes=5)
    assert len(state.mistakes) == 5
    given = [m.confidence for m in state.mistakes]
    assert given == sorted(given, reverse=True)
    probabilities = p.probabilities()
    for mistake in state.mistakes:
        assert probabilities[mistake.row].max() == pytest.approx(mistake.confidence)
        assert str(p.labels[mistake.row]) == mistake.label != mistake.predicted


def test_mistakes_are_numbered_as_in_the_file_with_its_ignored_rows(tmp_path):
    labels = np.array([-100, 0, -100, 1, 0, 0, -100, 1, 0, 0])
    scores = np.array([[0.9, 0.1]] * 3 + [[0.8, 0.2]] * 4 + [[0.7, 0.3]] * 3)
    path = tmp_path / "p.csv"
    rows = [f"{a},{b},{label}" for (a, b), label in zip(scores, labels, strict=True)]
    path.write_text("\n".join(["probabilities_0,probabilities_1,label", *rows]) + "\n")
    whole = Predictions.from_probabilities(scores, labels)
    for source in (whole, stream(path), stream(path, rows=3), stream(path, rows=1)):
        assert [m.row for m in audit(source, bootstrap=0).mistakes] == [3, 7]
    read = Predictions.concatenate(stream(path, rows=2))
    assert read.rows.tolist() == whole.rows.tolist() == [1, 3, 4, 5, 7, 8, 9]
    calibrated = read.with_scores(np.sqrt(read.scores), "logits")
    assert [m.row for m in audit(calibrated, bootstrap=0).mistakes] == [3, 7]


def test_one_empty_bin_is_reported_in_the_singular():
    p = Predictions.from_probabilities([0.95, 0.6], [1, 1])
    for bins, beginning in ((2, "1 of 2 bins is empty"), (4, "2 of 4 bins are empty")):
        assert any(s.startswith(beginning) for s in audit(p, bins=bins, bootstrap=0).verdict)


def test_nothing_to_audit():
    for p in (Predictions.from_probabilities([0.5], [-100]), Predictions.from_logits([], [])):
        with pytest.raises(InputError, match="Nothing to audit"):
            audit(p)


def test_one_example():
    found = audit(Predictions.from_probabilities([0.9], [1]))
    assert values(found)["ece"] == pytest.approx(0.1)
    assert math.isnan(values(found)["auroc"])
    assert all(m.low is None for m in found.measures if m.name == "ece")


def test_as_json():
    p = Predictions.from_probabilities([[1.0, 0.0], [0.5, 0.5]], [1, 0], label_names=["a", "b"])
    document = json.loads(json.dumps(audit(p, bootstrap=20).to_dict(), allow_nan=False))
    assert document["measures"]["nll"]["value"] == "inf"
    assert document["state"]["n"] == 2


def test_many_classes_stay_in_bounded_memory():
    p = overconfident(300, 500)
    found = audit(p, bootstrap=30)
    assert values(found)["classwise_ece"] == pytest.approx(classwise_ece(accumulate(p)))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    p = overconfident()
    q = Predictions.from_logits(torch.tensor(p.scores), torch.tensor(p.labels))
    assert values(audit(q, bootstrap=0))["ece"] == pytest.approx(
        values(audit(p, bootstrap=0))["ece"]
    )


def test_an_error_in_the_middle_of_a_stream_is_raised():
    """The next chunk is read while one is summed; its error must not get lost."""
    part = Predictions.from_probabilities([0.9, 0.2], [1, 0])

    def chunks():
        yield part
        yield part
        raise InputError("the third part is damaged")

    with pytest.raises(InputError, match="third part"):
        audit(chunks(), bootstrap=0)


def test_a_chunk_that_cannot_be_added_ends_the_reading():
    part, read = Predictions.from_probabilities([0.9, 0.2], [1, 0]), []

    def chunks():
        for k in range(100):
            read.append(k)
            yield part if k < 2 else "no predictions"

    with pytest.raises(InputError):
        audit(chunks(), bootstrap=0)
    assert len(read) <= 5


def test_the_worst_bin_has_no_interval() -> None:
    """That of its replicates held the true value in 2 % of samples of 300 examples."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 300)
    p = Predictions.from_logits(random.normal(size=(300, 3)) + np.eye(3)[labels], labels)
    found = {measure.name: measure for measure in audit(p, bootstrap=100).measures}
    assert found["mce"].low is None
    assert "no dependable interval" in found["mce"].meaning
    assert found["ece"].low is not None


def test_without_a_mistake_intervals_allow_for_those_of_other_samples() -> None:
    """Replicates are all right, too: an ECE of .0005 ± 0 was printed where .03 was possible."""
    confidence = np.linspace(0.999, 1, 100)
    p = Claims.from_top_label(None, confidence, correct=np.ones(100, bool))
    found = audit(p, bootstrap=100)
    measures = {measure.name: measure for measure in found.measures}
    share = 1 - 0.025 ** (1 / 100)
    for name in ("ece", "smooth_ece", "ks_error", "adaptive_ece"):
        assert measures[name].low == 0
        assert measures[name].high == pytest.approx(measures[name].value + share, abs=1e-3)
    assert measures["accuracy"].low == pytest.approx(1 - share)
    kept = measures["risk_at_coverage"]  # Of the most confident 80.
    assert (kept.low, kept.high) == (0, pytest.approx(1 - 0.025 ** (1 / 80)))
    for name in ("nll", "brier", "aurc", "coverage_at_risk"):
        assert measures[name].low is None
    assert any("Every prediction is right" in text for text in found.warnings)
    assert bootstrap_interval(nll, p, replicates=100) is None


@pytest.mark.parametrize("n", [100, 5000])
def test_accuracy_of_independent_examples_without_a_mistake_is_that_of_clopper_and_pearson(n):
    p = Claims.from_top_label(None, np.full(n, 0.999), correct=np.ones(n, bool))
    found = {measure.name: measure for measure in audit(p, bootstrap=100).measures}
    assert found["accuracy"].low == pytest.approx(0.025 ** (1 / n))


def _covered(metric, truth, n, power, samples=60):
    """Return how often the interval of a metric holds the truth."""
    held = 0
    for seed in range(samples):
        random = np.random.default_rng(seed)
        confidence = random.beta(5, 1, n)
        right = random.random(n) < confidence**power
        p = Claims.from_top_label(None, confidence, correct=right)
        low, high = bootstrap_interval(metric, p, replicates=100, seed=seed)
        held += low <= truth <= high
    return held / samples


def test_intervals_of_the_debiased_error_hold_the_truth() -> None:
    """Replicates have the noise twice; their percentiles held it in 83 %."""
    assert _covered(debiased_rms_ece, 0.0478, 200, 1.3) >= 0.9


def test_intervals_of_the_coverage_at_a_risk_hold_the_truth() -> None:
    """The first few can all be right by luck: percentiles of few examples were too high."""
    assert _covered(partial(coverage_at_risk, risk=0.05), 0.0844, 200, 6) >= 0.9
