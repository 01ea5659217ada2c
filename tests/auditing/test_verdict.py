"""The verdict: it sees classes and groups that are off, and does not doubt honest confidences."""

import math

import numpy as np
import pytest

from calibrant import Claims, Predictions, classwise_ece
from calibrant.auditing import audit
from calibrant.auditing.evidence import ClaimSums, p_values
from calibrant.cli import main
from calibrant.metrics import accumulate, assign_blocks, chance_ece, ece

SATISFIED = ("No reason to doubt", "Little reason to doubt", "Too few examples")


def honest(rng, n, classes=3):
    logits = rng.normal(size=(n, classes)) * rng.gamma(2.0, 1.0, (n, 1))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def first_sentence(probabilities, labels, **more):
    return audit(
        Predictions.from_probabilities(probabilities, labels, **more), bootstrap=0
    ).verdict[0]


def test_a_positive_class_that_is_off_while_the_top_label_is_fine():
    rng = np.random.default_rng(0)
    given = rng.uniform(0.165, 1.0, 20_000)
    p = Predictions.from_probabilities(given, (rng.random(20_000) < given - 0.165).astype(int))
    assert classwise_ece(p) == pytest.approx(0.165, abs=0.005)
    found = audit(p, bootstrap=0)
    assert not found.verdict[0].startswith(SATISFIED)
    assert {finding.name for finding in found.findings if finding.kind == "class"} >= {"1"}


def test_a_class_that_claims_more_than_it_keeps():
    """Class 1 claims 75 % and is right 65 %, class 0 the other way round: they cancel."""
    scores = np.repeat([0.75, 0.25], 1000)
    labels = np.concatenate([np.arange(1000) < 650, np.arange(1000) >= 850]).astype(int)
    p = Predictions.from_probabilities(scores, labels)
    assert ece(p) < 0.001
    found = audit(p, bootstrap=0)
    assert found.verdict[0] == (
        "Right on the whole, but not for every class: '1', claimed 75.0 % and right 65.0 % in "
        "1,000 predictions."
    )
    assert [(f.name, f.where, f.n) for f in found.findings] == [
        ("1", "predicted", 1000),
        ("0", "predicted", 1000),
    ]


def test_a_class_that_is_never_predicted():
    """It is given 10 % everywhere and never comes."""
    p = np.tile([0.6, 0.3, 0.1], (1000, 1))
    labels = np.repeat([0, 1], [600, 400])
    found = audit(Predictions.from_probabilities(p, labels), bootstrap=0)
    assert "the label of 0.0 % of 1,000 examples" in found.verdict[0]


def test_a_group_that_is_off_while_all_together_are_fine():
    scores = np.full(2000, 0.8)
    labels = np.concatenate([np.arange(1000) < 720, np.arange(1000) < 880]).astype(int)
    groups = {"sex": np.repeat(["f", "m"], 1000), "id": np.arange(2000)}
    p = Predictions.from_probabilities(scores, labels, groups=groups)
    found = audit(p, bootstrap=0)
    assert found.verdict[0].startswith("Right on the whole, but not for every group: 'sex = ")
    assert {finding.name for finding in found.findings} == {"sex = f", "sex = m"}
    streamed = audit(p.chunks(300), bootstrap=0)
    assert streamed.verdict == found.verdict


@pytest.mark.parametrize("classes", [2, 4, 30])
def test_honest_confidences_are_seldom_doubted(classes):
    """At most 5 %; 6 of 60 would have a chance of one in a hundred."""
    rng = np.random.default_rng(classes)
    doubts = sum(
        not first_sentence(*honest(rng, 400, classes)).startswith(SATISFIED) for _ in range(60)
    )
    assert doubts <= 6


def test_words_that_are_alike_count_once():
    """Each word four times: blindly far from chance, by sentence it is not."""
    rng = np.random.default_rng(3)
    doubts = {"by sentence": 0, "blindly": 0}
    for _ in range(30):
        p, labels = (np.repeat(a, 4, axis=0) for a in honest(rng, 200))
        sentence = np.repeat(np.arange(200), 4)
        for name, groups in (("by sentence", {"sentence": sentence}), ("blindly", {})):
            first = first_sentence(p, labels, groups=groups)
            doubts[name] += not first.startswith(SATISFIED)
    assert doubts["by sentence"] <= 4
    assert doubts["blindly"] >= 15


def test_p_values_bound_those_of_the_binomial():
    stats = pytest.importorskip("scipy.stats")
    for n, share in ((5, 0.5), (40, 0.9), (300, 0.02), (1000, 0.7)):
        right = np.arange(n + 1)
        claims = ClaimSums(np.full(n + 1, n), np.full(n + 1, n * share), right)
        tail = np.minimum(stats.binom.cdf(right, n, share), stats.binom.sf(right - 1, n, share))
        exact = np.minimum(1, 2 * tail)
        mine = p_values(claims)
        assert (mine >= exact - 1e-9).all()
        # And not by much: what they reject is what the binomial rejects one success earlier.
        assert (mine[2:-2] <= np.minimum(1, 2 * np.maximum(exact[1:-3], exact[3:-1])) + 1e-9).all()


def test_p_values_at_the_edges():
    claims = ClaimSums(
        np.array([0, 10, 10, 1]), np.array([0.0, 10, 0, 0.5]), np.array([0, 10, 0, 1])
    )
    assert p_values(claims).tolist() == [1.0, 1.0, 1.0, 1.0]
    certain = ClaimSums(np.array([10]), np.array([10.0]), np.array([5]))
    assert p_values(certain)[0] < 1e-6


def test_a_few_large_weights_prove_little():
    """Of 500 examples fifteen have nearly all of the weight: 12 % of honest models were doubted."""
    rng, doubted = np.random.default_rng(3), 0
    for _ in range(150):
        confidence = rng.random(500)
        labels = (rng.random(500) < confidence).astype(int)
        weights = np.where(rng.random(500) < 0.03, 100.0, 1.0)
        found = audit(
            Predictions.from_probabilities(confidence, labels, weights=weights), bootstrap=0
        )
        doubted += not found.verdict[0].startswith(("No reason", "Little reason", "Too few"))
    assert doubted <= 12  # 7.5 are expected at most.


def test_large_groups_decide_how_many_there_are():
    """Three groups have nearly all examples, so Student's t has little more than two degrees."""
    sizes = np.array([1000.0] * 3 + [1.0] * 97)[:, None]
    alike = ClaimSums.blocked(sizes, 0.5 * sizes, 0.7 * sizes)
    assert alike.groups == pytest.approx(3, abs=0.01)
    equal = np.full((100, 1), 10.0)
    assert ClaimSums.blocked(equal, 0.5 * equal, 0.7 * equal).groups == 100


def test_one_group_alone_proves_nothing():
    n, zero = np.array([[50.0], [0.0]]), np.array([[0.0], [0.0]])
    assert p_values(ClaimSums.blocked(n, 0.8 * n, zero)).tolist() == [1.0]


def test_chance_takes_predictions_states_and_blocks():
    rng = np.random.default_rng(0)
    scores, labels = (np.repeat(a, 5, axis=0) for a in honest(rng, 300))
    groups = {"sentence": np.repeat(np.arange(300), 5)}
    p = Predictions.from_probabilities(scores, labels, groups=groups)
    assert chance_ece(p) == chance_ece(accumulate(p))
    blocked = accumulate(p, block=assign_blocks(p), blocks=1000)
    # Five copies of an example are worth one: √5 times as much by chance.
    ratio = chance_ece(blocked)[0] / chance_ece(p)[0]
    assert ratio == pytest.approx(math.sqrt(5), rel=0.25)


@pytest.mark.parametrize("groups", [2, 19])
def test_few_blocks_are_warned_about(groups, tmp_path, capsys):
    rng = np.random.default_rng(0)
    p, labels = honest(rng, 400)
    made = Predictions.from_probabilities(p, labels, groups={"sex": np.arange(400) % groups})
    made.write(tmp_path / "p.npz")
    command = ["audit", str(tmp_path / "p.npz"), "--by", "sex", "--bootstrap", "50"]
    assert main([*command, "--report", str(tmp_path / "r.html")]) == 0
    warning = f"Warning: 'sex' has {groups} groups of examples: an interval needs at least 20"
    assert warning in capsys.readouterr().out
    assert warning.replace("'", "&#x27;") in (tmp_path / "r.html").read_text() or (
        warning in (tmp_path / "r.html").read_text()
    )
    assert main([*command, "--json"]) == 0
    document = capsys.readouterr().out
    assert f"has {groups} groups of examples" in document
    assert "of ten groups held the truth in 89 % of simulated samples" in document
    assert audit(made, keep_together="sex", bootstrap=0).warnings == ()
    assert audit(made, keep_together=None, bootstrap=50).warnings == ()


def test_what_is_off_in_one_direction_needs_no_sum_of_bins():
    # 63 examples at many confidences, too shy by 14 points: the noise of every bin hides it.
    confidence = np.linspace(0.62, 1.0, 63)
    labels = np.r_[np.zeros(3), np.ones(60)].astype(int)
    found = audit(Predictions.from_probabilities(confidence, labels), bootstrap=200)
    state = accumulate(Predictions.from_probabilities(confidence, labels))
    assert ece(state) < chance_ece(state, quantile=0.975)[1]
    assert found.verdict[0].startswith("Underconfident by 14.2 points")
    assert (
        next(m.low for m in found.measures if m.name == "ece") > 0
    )  # No ECE is smaller than the gap of the means.
    gap, variance = (confidence - labels).sum(), (confidence * (1 - confidence)).sum()
    assert abs(gap) > 2.9 * np.sqrt(variance)  # Were they honest: one sample in 270.


def test_the_interval_of_the_ece_never_contradicts_the_verdict():
    """Where it begins above 0, the verdict does not say that there is no reason to doubt."""
    leads = []
    for seed in (0, 1, 4, 32):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(0.5, 1, 400)
        right = rng.random(400) < confidence - 0.035
        p = Predictions.from_probabilities(confidence, right.astype(int))
        audited = audit(p, bootstrap=100)
        leads.append(audited.verdict[0].split(" ")[0])
        if audited.verdict[0].startswith("No reason"):
            assert audited["ece"].low == 0
        if audited.verdict[0].startswith("Little reason"):
            assert audited["ece"].low > 0
            assert "borderline" in audited.verdict[0]
    assert leads == ["No", "Overconfident", "Right", "Little"]


def test_rows_that_rounding_keeps_from_a_sum_of_1_are_counted():
    random = np.random.default_rng(0)
    whole = random.dirichlet(np.ones(30), 500)
    labels = (whole.cumsum(axis=1) < random.random((500, 1))).sum(axis=1).clip(0, 29)
    written = whole.round(2)
    missed = int((abs(written.sum(axis=1) - 1) > 0.01001).sum())
    found = audit(Predictions.from_probabilities(written, labels), bootstrap=0)
    assert f"{missed} of 500 rows miss a sum of 1" in found.warnings[0]
    assert audit(Predictions.from_probabilities(whole, labels), bootstrap=0).warnings == ()


def test_scores_that_mean_nothing_have_no_direction():
    """Too low where they are low, too high where they are high: the mean is nearly right."""
    random = np.random.default_rng(9)
    scores = random.random(300)
    labels = (random.random(300) < 0.52).astype(int)
    claims = Claims.from_multi_label(scores[:, None], labels[:, None])
    gap = scores.mean() - labels.mean()
    assert 0.005 < abs(gap) < 0.03
    assert audit(claims, bootstrap=0).verdict[0].startswith("Balanced only on average")
    over = Predictions.from_probabilities(np.full(300, 0.9), random.random(300) < 0.8)
    assert audit(over, bootstrap=0).verdict[0].startswith("Overconfident by")


@pytest.mark.parametrize(("n", "lead"), [(1, "Too few"), (29, "Too few"), (40, "No reason")])
def test_a_few_certain_and_right_predictions_prove_little(n, lead):
    faultless = Predictions.from_probabilities(np.tile([1.0, 0.0, 0.0], (n, 1)), [0] * n)
    assert audit(faultless, bootstrap=0).verdict[0].startswith(lead)


def test_what_is_expected_is_no_more_than_what_may_be():
    """With errors this rare, the mean ECE of a calibrated model lies beyond most samples."""
    sure = Predictions.from_logits(np.tile([9.0, 0.0, 0.0], (50, 1)), [0] * 50)
    assert "at n = 50 (up to 0.0" in audit(sure, bootstrap=0).verdict[0]


def test_logits_that_look_like_probabilities_get_a_warning():
    """Read as logits they would be far too modest, and nothing else would say why."""
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 300)
    labels = rows.argmax(axis=1)
    (line,) = audit(Predictions.from_logits(rows, labels), bootstrap=0).warnings
    assert "sums to 1, as probabilities do" in line
    assert audit(Predictions.from_probabilities(rows, labels), bootstrap=0).warnings == ()
    assert audit(Predictions.from_logits(np.log(rows), labels), bootstrap=0).warnings == ()


def test_nearly_all_is_not_called_all():
    """Three of 100,000 are wrong: only exactly all reads 100.0 %, and only exactly none 0.0 %."""
    p = Predictions.from_probabilities(np.full(100_000, 0.99996), np.arange(100_000) >= 3)
    found = audit(p, bootstrap=0)
    assert found.verdict[1] == (
        "Taken together, the model says 99.996 % on average and is right 99.997 % of the time."
    )
    assert "(about 0.002 points, up to " in found.verdict[0]
    assert found.verdict[2].endswith("; 100.0 % of the examples lie in the most confident one.")
    assert found["accuracy"].meaning == "99.997 % of the predictions are right."
    assert "0.003 % are wrong" in found["risk_at_coverage"].meaning
